// Where the time of a run goes, kernel by kernel: as a table, as a timeline for trace viewers, and
// as a page to look at.
#pragma once

#include "tools/tensmith/Report.h"
#include "tools/tensmith/Roofline.h"

namespace tensmith::cli {

/// A profile's instructions, those of the same nodes added up, per run, the slowest first. The
/// "seconds" of one that executes others, as a loop does, are what it takes itself, so that all can
/// be added up; "whole_seconds" are with theirs.
Json kernelsOf(const Json &profile, int runs);

/// What a kernel does, and the nodes that it comes from.
std::string nodesText(const Json &kernel);

void printKernels(const Json &kernels);

/// One HTML file that needs nothing else: the roofline plot as SVG, and the table. `bench` is what
/// --json prints.
std::string rooflinePage(const Json &bench, const Roofline &roofline);

} // namespace tensmith::cli
