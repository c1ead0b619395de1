// Who watches a run of training: on stderr, or not at all.
#pragma once

#include "client/Progress.h"
#include "train/Run.h"

namespace tensmith::client {

/// Of a process whose run another one shows.
class Silent : public train::Watcher {
public:
  void progress(const std::string &, double, const std::string &) override {}
  void say(const std::string &) override {}
  void warn(const std::string &) override {}
};

class Screen : public train::Watcher {
public:
  Screen() : progress_("training") {}
  void progress(const std::string &stage, double fraction, const std::string &figures) override {
    progress_.update(stage, fraction, figures);
  }
  void say(const std::string &line) override { progress_.say(line); }
  void warn(const std::string &line) override { progress_.warn(line); }

private:
  Progress progress_;
};

} // namespace tensmith::client
