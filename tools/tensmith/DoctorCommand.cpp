// tensmith doctor: what is installed here, what the machine and the system give, and what to do
// where something won't work.
#include "tools/tensmith/Commands.h"
#include "tools/tensmith/Report.h"
#include "tools/tensmith/doctor/Findings.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <fmt/format.h>
#include <iostream>

namespace tensmith::cli {
namespace {

using doctor::Finding;
using doctor::Level;

struct Examined {
  const char *title;
  void (*examine)(doctor::Section);
};
constexpr Examined kSections[] = {
    {"installed", doctor::examineInstallation},
    {"python", doctor::examinePython},
    {"machine", doctor::examineMachine},
    {"folders", doctor::examineFolders},
    {"limits of a process", doctor::examineLimits},
    {"environment", doctor::examineEnvironment},
};

Json asJson(const Finding &finding) {
  Json json = {{"section", finding.section},
               {"name", finding.name},
               {"value", finding.value},
               {"level", doctor::kLevelNames[size_t(finding.level)]}};
  if (!finding.advice.empty())
    json["advice"] = finding.advice;
  return json;
}

void print(const std::vector<Finding> &findings) {
  std::string section;
  for (const Finding &finding : findings) {
    if (finding.section != section)
      std::cout << (section.empty() ? "" : "\n") << finding.section << '\n';
    section = finding.section;
    const char *mark = finding.level == Level::Fine   ? " "
                       : finding.level == Level::Note ? "-"
                                                      : "!";
    std::cout << fmt::format("{} {:<27} {}\n", mark, finding.name, finding.value);
    if (!finding.advice.empty())
      std::cout << fmt::format("{:30}{}\n", "", finding.advice);
  }
}

int diagnose(bool json) {
  std::vector<Finding> findings;
  for (const Examined &one : kSections)
    one.examine(doctor::Section(one.title, findings));
  auto problems = std::ranges::count(findings, Level::Problem, &Finding::level);
  if (json) {
    Json all = Json::array();
    for (const Finding &finding : findings)
      all.push_back(asJson(finding));
    printJson({{"problems", problems}, {"findings", all}});
  } else {
    print(findings);
    std::cout << fmt::format("\n{}\n", problems == 0 ? "no problems"
                                       : problems == 1
                                           ? "1 problem, marked !"
                                           : fmt::format("{} problems, marked !", problems));
  }
  return problems ? kFailure : kSuccess;
}

} // namespace

void addDoctor(CLI::App &app, Action &chosen) {
  auto json = std::make_shared<bool>(false);
  CLI::App *command =
      app.add_subcommand("doctor", "Examine what is installed, the machine, folders and limits");
  command->add_flag("--json", *json, "As JSON");
  command->footer(
      "Nothing is changed or measured. A line that begins with ! is a problem, one with - "
      "could be\nhad and isn't there. Exit status: 1 where there is a problem.\n"
      "Examples:\n"
      "  tensmith doctor\n"
      "  tensmith doctor --json");
  command->callback([json, &chosen] { chosen = [json] { return diagnose(*json); }; });
}

} // namespace tensmith::cli
