// Batches beside the incumbent, and its challengers; see KernelTuner.h.
#include "tune/KernelTuner.h"

#include "files/Failure.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

namespace tensmith::tune {

struct KernelTuner::Entry {
  Configuration configuration;
  std::string choices;
  std::optional<size_t> candidate;
  RunOutcome last;             // of its last run, or why it was not built
  std::vector<double> seconds; // of all runs
  std::vector<double> ratios;  // to the incumbent of the same turn
  Features features;
};

KernelTuner::KernelTuner(const TunableKernel &kernel, Bench &bench, Database &database,
                         const TuningSettings &settings)
    : kernel_(kernel), bench_(bench), database_(database), settings_(settings),
      model_(treesModel(settings.loss, settings.seed)), random_(settings.seed) {
  search_ = makeSearch(settings.search, kernel.space, settings.seed,
                       {model_, nullptr, settings.acquisition});
  incumbentChoices_ = kernel.estimated;
  resume();
}

void KernelTuner::resume() {
  for (Trial &trial : database_.trials(kernel_.name.machine, kernel_.name.key)) {
    Configuration configuration = kernel_.space.parse(trial.choices);
    if (trial.compiler != settings_.compiler || configuration.empty())
      continue;
    bool isTimed = trial.outcome == "timed" && !trial.seconds.empty();
    observed_.push_back({std::move(configuration), isTimed ? medianOf(trial.seconds) : kFailed});
    features_.push_back(std::move(trial.features));
  }
  isNew_ = observed_.empty();
  search_->observe(observed_);
  if (auto winner = database_.winner(kernel_.name.machine, kernel_.name.key))
    incumbentChoices_ = winner->choices;
}

/// Half of the first batch; and all of the second one where what was measured since shows that the
/// history knows something of this kernel. Later batches are the search's own.
void KernelTuner::suggest(size_t count) {
  bool isFirst = std::exchange(isNew_, false);
  if (!settings_.precedents || (!isFirst && !history_))
    return;
  if (isFirst)
    count = std::max<size_t>(1, count / 2);
  std::vector<Configuration> points;
  if (isFirst) {
    points = nearestPoints(kernel_, database_, std::max<size_t>(1, count / 2));
    history_ = historyOf(kernel_.name, database_, settings_.compiler, settings_.seed);
  } else if (!orders(*history_)) {
    history_.reset();
  }
  if (history_)
    std::ranges::move(likeliest(kernel_, *history_, bench_, random_, count),
                      std::back_inserter(points));
  points.resize(std::min(points.size(), count));
  search_->suggest(std::move(points));
  if (!isFirst)
    history_.reset();
}

bool KernelTuner::orders(const History &history) const {
  constexpr double kFair = 0.6; // of pairs; half are in order by chance
  std::vector<Features> rows;
  std::vector<double> seconds;
  for (size_t i = 0; i < observed_.size(); ++i)
    if (features_[i].size() == history.length) {
      rows.push_back(features_[i]);
      seconds.push_back(observed_[i].seconds);
    }
  return !rows.empty() && pairwiseAccuracy(*history.model, rows, seconds) >= kFair;
}

/// The search begins from it: estimates are seldom far off.
void KernelTuner::observeEstimate() {
  Observation estimate{kernel_.space.parse(kernel_.estimated), before_};
  if (estimate.configuration.empty())
    return;
  search_->observe(std::span(&estimate, 1));
  observed_.push_back(std::move(estimate));
  features_.push_back(bench_.features(kernel_.name.key, kernel_.estimated));
}

bool KernelTuner::start() {
  if (incumbent_)
    return true;
  if (!broken_.empty())
    return false;
  estimated_ = bench_.build(kernel_.name.key, kernel_.estimated, broken_);
  if (!estimated_)
    return false;
  RunOutcome first = bench_.run(*estimated_);
  if (!first.isTimed()) {
    broken_ = first.outcome + ": " + first.why;
    return false;
  }
  before_ = best_ = first.seconds;
  incumbent_ = estimated_;
  observeEstimate();
  std::string why;
  if (incumbentChoices_ == kernel_.estimated)
    return true;
  // A winner of before, which has to be one still.
  auto kept = bench_.build(kernel_.name.key, incumbentChoices_, why);
  Verdict verdict;
  if (kept)
    verdict = challenge(bench_, *kept, *estimated_);
  bool isSlower = verdict.failure.empty() && verdict.confidence <= 1 - Verdict::kConfident;
  if (!kept || !verdict.failure.empty() || isSlower) {
    incumbentChoices_ = kernel_.estimated;
    if (isSlower)
      database_.removeWinner(kernel_.name);
    if (kept)
      bench_.drop(*kept);
    return true;
  }
  incumbent_ = kept;
  before_ = medianOf(verdict.other);
  best_ = medianOf(verdict.challenger);
  return true;
}

size_t KernelTuner::step(size_t most) {
  if (!start())
    return 0;
  std::vector<Entry> entries;
  suggest(std::min(most, settings_.batch));
  for (Configuration &configuration : search_->propose(std::min(most, settings_.batch))) {
    Entry entry;
    entry.choices = kernel_.space.text(configuration);
    entry.configuration = std::move(configuration);
    std::string why;
    entry.candidate = bench_.build(kernel_.name.key, entry.choices, why);
    if (!entry.candidate)
      entry.last = {"not built", 0, why};
    else
      entry.features = bench_.features(kernel_.name.key, entry.choices);
    entries.push_back(std::move(entry));
  }
  measure(entries);
  Entry *fastest = nullptr;
  std::vector<Observation> news;
  for (Entry &entry : entries) {
    bool isTimed = entry.candidate && entry.last.isTimed() && !entry.ratios.empty();
    news.push_back({entry.configuration, isTimed ? medianOf(entry.ratios) * best_ : kFailed});
    record(entry);
    ++trials_;
    failures_ += !isTimed;
    if (isTimed && (!fastest || medianOf(entry.ratios) < medianOf(fastest->ratios)))
      fastest = &entry;
  }
  search_->observe(news);
  observed_.insert(observed_.end(), news.begin(), news.end());
  for (const Entry &entry : entries)
    features_.push_back(entry.features);
  constexpr double kWorthIt = 0.99;
  if (fastest && medianOf(fastest->ratios) < kWorthIt)
    challengeBy(*fastest);
  for (const Entry &entry : entries) {
    curve_.push_back(best_);
    if (entry.candidate && entry.candidate != incumbent_)
      bench_.drop(*entry.candidate);
  }
  return entries.size();
}

void KernelTuner::measure(std::vector<Entry> &entries) {
  std::vector<Entry *> left;
  for (Entry &entry : entries)
    if (entry.candidate)
      left.push_back(&entry);
  int sure = 1 + int(batches_++ % settings_.turns); // turns before the slower half goes
  for (int turn = 0; turn < settings_.turns && !left.empty(); ++turn) {
    RunOutcome beside = bench_.run(*incumbent_);
    if (!beside.isTimed())
      continue; // the machine, not the candidates
    for (Entry *entry : left) {
      entry->last = bench_.run(*entry->candidate);
      if (!entry->last.isTimed())
        continue;
      entry->seconds.push_back(entry->last.seconds);
      entry->ratios.push_back(entry->last.seconds / beside.seconds);
    }
    std::erase_if(left, [](const Entry *entry) { return !entry->last.isTimed(); });
    if (turn + 1 < sure)
      continue;
    std::ranges::stable_sort(left, {}, [](const Entry *entry) { return medianOf(entry->ratios); });
    left.resize((left.size() + 1) / 2);
  }
}

void KernelTuner::challengeBy(Entry &entry) {
  Verdict verdict = challenge(bench_, *entry.candidate, *incumbent_);
  if (!verdict.isFaster())
    return;
  // What is promised is against the estimates' point, whoever was beaten on the way.
  Verdict all =
      incumbent_ == estimated_ ? verdict : challenge(bench_, *entry.candidate, *estimated_);
  if (!all.isFaster())
    return;
  if (incumbent_ != estimated_)
    bench_.drop(*incumbent_);
  incumbent_ = entry.candidate;
  incumbentChoices_ = entry.choices;
  best_ = medianOf(all.challenger);
  before_ = medianOf(all.other);
  database_.setWinner(kernel_.name, {entry.choices, best_, before_, all.confidence,
                                     settings_.compiler, int64_t(std::time(nullptr))});
}

void KernelTuner::record(const Entry &entry) {
  Trial trial;
  trial.choices = entry.choices;
  trial.outcome = entry.last.outcome.empty() ? "not run" : entry.last.outcome;
  trial.why = entry.last.why;
  trial.search = settings_.search;
  trial.compiler = settings_.compiler;
  trial.at = int64_t(std::time(nullptr));
  trial.seconds = entry.seconds;
  trial.features = entry.features;
  if (trial.outcome != "not run")
    database_.add(kernel_.name, trial);
}

std::vector<std::pair<std::string, double>> KernelTuner::importances() const {
  std::vector<double> shares = model_->importances();
  std::vector<size_t> places = kernel_.space.dimensionsOfKnobs();
  std::vector<std::pair<std::string, double>> all;
  if (shares.empty())
    return all;
  for (const SearchSpace::Dimension &dimension : kernel_.space.dimensions())
    all.emplace_back(dimension.name, 0);
  for (size_t i = 0; i < std::min(shares.size(), places.size()); ++i)
    all[places[i]].second += shares[i];
  return all;
}

std::vector<KernelTuner::Predicted> KernelTuner::predictions() const {
  std::vector<Predicted> all;
  if (!model_->isFitted())
    return all;
  std::vector<Features> rows;
  for (const Observation &each : observed_)
    rows.push_back(kernel_.space.knobs(each.configuration));
  std::vector<Prediction> predicted = model_->predict(rows);
  for (size_t i = 0; i < rows.size(); ++i)
    if (std::isfinite(observed_[i].seconds))
      all.push_back({predicted[i].score, observed_[i].seconds});
  return all;
}

} // namespace tensmith::tune
