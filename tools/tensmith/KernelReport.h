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

/// The head of a page that needs nothing else, in light and in dark, with the title above its body;
/// `style` is added to that of all pages.
std::string pageHead(const std::string &title, const char *style);

/// One HTML file that needs nothing else: the times of several files as bars, and their kernels
/// side by side. `benches` is a list of what --json prints of each, with "ratio" to the first.
std::string comparisonPage(const Json &benches);

/// One HTML file that needs nothing else: the roofline plot as SVG, and the table. `bench` is what
/// --json prints.
std::string rooflinePage(const Json &bench, const Roofline &roofline);

} // namespace tensmith::cli
