// What tensmith doctor finds: facts, each with what to do where something is wrong with it.
#pragma once

#include <string>
#include <vector>

namespace tensmith::cli::doctor {

enum class Level {
  Fine,
  Note,   // nothing is wrong, but something could be had that isn't there
  Problem // something won't work, or not as it should
};
inline constexpr const char *kLevelNames[] = {"fine", "note", "problem"};

struct Finding {
  std::string section, name, value;
  Level level = Level::Fine;
  std::string advice; // what to do; of all but Fine
};

/// Findings of one section, in the order in which they are made.
class Section {
public:
  Section(std::string name, std::vector<Finding> &findings)
      : name_(std::move(name)), findings_(findings) {}
  void fine(const std::string &name, const std::string &value) {
    findings_.push_back({name_, name, value, Level::Fine, ""});
  }
  void note(const std::string &name, const std::string &value, const std::string &advice) {
    findings_.push_back({name_, name, value, Level::Note, advice});
  }
  void problem(const std::string &name, const std::string &value, const std::string &advice) {
    findings_.push_back({name_, name, value, Level::Problem, advice});
  }

private:
  std::string name_;
  std::vector<Finding> &findings_;
};

// Each fills one section; none of them throws or changes anything on the machine.

/// The program's libraries: compiler, runtime, and those that are opened when they are needed.
void examineInstallation(Section section);
/// The Python package, as the first python3 of the path has it.
void examinePython(Section section);
/// The processor, its CPUs, its memory, and what was measured of it.
void examineMachine(Section section);
/// The folder of what was compiled, and the one for temporary files.
void examineFolders(Section section);
/// What the system allows this process.
void examineLimits(Section section);
/// The variables that Tensmith reads, and those that look like them.
void examineEnvironment(Section section);

} // namespace tensmith::cli::doctor
