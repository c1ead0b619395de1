// Primitives by what they were made from, and post-ops; see OneDnn.h.
#include "libraries/onednn/OneDnn.h"

#include <bit>
#include <cstdlib>
#include <dlfcn.h>
#include <list>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace tensmith::onednn {

const dnnl::engine &engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::stream &stream() {
  thread_local dnnl::stream own = [] {
    // Of whichever OpenMP oneDNN was built with; where it was built with none there is nothing to
    // say.
    using SetThreads = void (*)(int);
    if (auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads")))
      set(1);
    return dnnl::stream(engine());
  }();
  return own;
}

dnnl::memory::desc describe(const Dims &dims, const Dims &strides) {
  return {dims, dnnl::memory::data_type::f32, strides};
}

dnnl::memory::desc describe(const Dims &dims) {
  Dims strides(dims.size(), 1);
  for (size_t dim = dims.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * dims[dim];
  return describe(dims, strides);
}

dnnl::memory::desc inAnyLayout(const Dims &dims) {
  return {dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

dnnl::memory memoryAt(const dnnl::memory::desc &desc, const void *data) {
  return {desc, engine(), const_cast<void *>(data)};
}

std::shared_ptr<const Made> findOrMake(const std::vector<int64_t> &key,
                                       const std::function<Made()> &make) {
  static std::shared_mutex mutex;
  static std::map<std::vector<int64_t>, std::shared_ptr<const Made>> all;
  constexpr size_t kMost = 4096; // sizes may differ from run to run
  {
    std::shared_lock lock(mutex);
    if (auto known = all.find(key); known != all.end())
      return known->second;
  }
  stream(); // one thread, before oneDNN looks how many there are
  auto made = std::make_shared<const Made>(make());
  std::unique_lock lock(mutex);
  if (all.size() >= kMost)
    all.clear();
  return all.emplace(key, std::move(made)).first->second;
}

struct Weights::Layouts {
  struct Layout {
    dnnl::memory::desc desc;
    std::unique_ptr<float, void (*)(void *)> memory;
  };
  std::mutex mutex;
  std::list<Layout> all;

  /// Of weights that are kept.
  static std::map<const void *, std::shared_ptr<Layouts>> &kept() {
    static auto &byAddress = *new std::map<const void *, std::shared_ptr<Layouts>>;
    return byAddress;
  }
  static std::mutex &keptMutex() {
    static auto &mutex = *new std::mutex;
    return mutex;
  }
};

Weights::Weights(const float *data, bool isKept) : data_(data) {
  if (!isKept) {
    layouts_ = std::make_shared<Layouts>();
    return;
  }
  std::lock_guard lock(Layouts::keptMutex());
  auto &layouts = Layouts::kept()[data];
  if (!layouts)
    layouts = std::make_shared<Layouts>();
  layouts_ = layouts;
}

const float *Weights::in(const dnnl::memory::desc &wanted, const dnnl::memory::desc &plain,
                         const std::vector<int64_t> &key) {
  if (plain == wanted)
    return data_;
  std::lock_guard lock(layouts_->mutex);
  for (const Layouts::Layout &layout : layouts_->all)
    if (layout.desc == wanted)
      return layout.memory.get();
  constexpr size_t kLine = 64;
  size_t bytes = (wanted.get_size() + kLine - 1) / kLine * kLine;
  Layouts::Layout layout{wanted,
                         {static_cast<float *>(std::aligned_alloc(kLine, bytes)), std::free}};
  if (!layout.memory)
    throw std::bad_alloc();
  auto made = findOrMake(key, [&] {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return madeOf(dnnl::reorder::primitive_desc(engine(), plain, engine(), wanted, attributes));
  });
  std::vector<char> scratch(made->scratch.get_size());
  execute(*made,
          {{DNNL_ARG_FROM, memoryAt(plain, data_)},
           {DNNL_ARG_TO, memoryAt(wanted, layout.memory.get())}},
          scratch.data());
  layouts_->all.push_back(std::move(layout));
  return layouts_->all.back().memory.get();
}

void Weights::forget(const void *begin, const void *end) {
  std::lock_guard lock(Layouts::keptMutex());
  auto &kept = Layouts::kept();
  kept.erase(kept.lower_bound(begin), kept.lower_bound(end));
}

void execute(const Made &made, Arguments arguments, void *scratch) {
  if (made.scratch.get_size())
    arguments.insert_or_assign(DNNL_ARG_SCRATCHPAD, memoryAt(made.scratch, scratch));
  made.primitive.execute(stream(), arguments);
}

/// Whether the operand is of the result's shape.
static bool isFull(int64_t kind) {
  return kind == TENSMITH_STEP_ADD || kind == TENSMITH_STEP_SUBTRACT_FROM ||
         kind == TENSMITH_STEP_SUBTRACT;
}

Steps::Steps(const int64_t *sizes, void *const *operands, bool scalesSums) {
  for (int64_t number = 0; number < sizes[0]; ++number) {
    int kind = int(sizes[1 + 2 * number]);
    bool hasOperand =
        kind == TENSMITH_STEP_SCALE_COLUMNS || kind == TENSMITH_STEP_ADD_COLUMNS || isFull(kind);
    auto operand = hasOperand ? static_cast<const float *>(*operands++) : nullptr;
    auto value = float(std::bit_cast<double>(sizes[2 + 2 * number]));
    bool scales = scalesSums && steps_.empty() && !bias_;
    if (kind == TENSMITH_STEP_ADD_COLUMNS && number == 0) {
      bias_ = operand;
    } else if (kind == TENSMITH_STEP_SCALE && scales) {
      scale_ *= value;
    } else if (kind == TENSMITH_STEP_SUBTRACT_FROM && scales) {
      scale_ = -scale_;
      steps_.push_back({TENSMITH_STEP_ADD, 0, operand});
    } else {
      steps_.push_back({kind, value, operand});
    }
  }
  result_ = static_cast<float *>(*operands);
}

void Steps::keepAddend(int64_t elements) {
  for (size_t number = 0; number < steps_.size(); ++number) {
    Step &step = steps_[number];
    bool comesFirst = number == 0 && step.kind != TENSMITH_STEP_SUBTRACT_FROM;
    if (step.operand != result_ || comesFirst)
      continue;
    kept_.assign(step.operand, step.operand + elements);
    step.operand = kept_.data();
  }
}

void Steps::addTo(std::vector<int64_t> &key) const {
  key.push_back(std::bit_cast<int32_t>(scale_));
  key.push_back(bias_ != nullptr);
  for (const Step &step : steps_) {
    key.push_back(step.kind);
    key.push_back(std::bit_cast<int32_t>(step.number));
    key.push_back(step.operand == result_);
  }
}

Dims Steps::ofColumns(const Dims &dims, size_t channel) {
  Dims result(dims.size(), 1);
  result[channel] = dims[channel];
  return result;
}

dnnl::primitive_attr Steps::attributes(const Dims &dims, const Dims &strides,
                                       size_t channel) const {
  using dnnl::algorithm;
  dnnl::post_ops ops;
  auto apply = [&](algorithm kind) { ops.append_eltwise(1, kind, 0, 0); };
  // Not by eltwise_linear: with two of them in one primitive oneDNN 2.6 gives wrong results.
  auto multiply = [&] { ops.append_binary(algorithm::binary_mul, describe(Dims(dims.size(), 1))); };
  for (const Step &step : steps_) {
    switch (step.kind) {
    case TENSMITH_STEP_SCALE:
      multiply();
      break;
    case TENSMITH_STEP_SCALE_COLUMNS:
      ops.append_binary(algorithm::binary_mul, describe(ofColumns(dims, channel)));
      break;
    case TENSMITH_STEP_ADD_COLUMNS:
      ops.append_binary(algorithm::binary_add, describe(ofColumns(dims, channel)));
      break;
    case TENSMITH_STEP_SUBTRACT_FROM:
      multiply();
      [[fallthrough]];
    case TENSMITH_STEP_ADD:
      if (step.operand == result_)
        ops.append_sum();
      else
        ops.append_binary(algorithm::binary_add, describe(dims, strides));
      break;
    case TENSMITH_STEP_SUBTRACT:
      if (step.operand == result_)
        ops.append_sum(-1);
      else
        ops.append_binary(algorithm::binary_sub, describe(dims, strides));
      break;
    case TENSMITH_STEP_RELU:
      apply(algorithm::eltwise_relu);
      break;
    case TENSMITH_STEP_GELU:
      apply(algorithm::eltwise_gelu_erf);
      break;
    case TENSMITH_STEP_TANH:
      apply(algorithm::eltwise_tanh);
      break;
    case TENSMITH_STEP_SIGMOID:
      apply(algorithm::eltwise_logistic);
      break;
    default:
      throw dnnl::error(dnnl_invalid_arguments, "no such step");
    }
  }
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(ops);
  if (scale_ != 1)
    attributes.set_output_scales(0, {scale_});
  return attributes;
}

void Steps::addTo(Arguments &arguments, const Dims &dims, const Dims &strides, size_t channel,
                  int64_t offset, int64_t column) const {
  int place = 0;
  if (bias_)
    arguments.insert_or_assign(
        DNNL_ARG_BIAS,
        memoryAt(dims.size() == 4 ? describe({dims[channel]}) : describe(ofColumns(dims, channel)),
                 bias_ + column));
  auto put = [&](const dnnl::memory::desc &desc, const float *data) {
    arguments.insert_or_assign(DNNL_ARG_ATTR_MULTIPLE_POST_OP(place) | DNNL_ARG_SRC_1,
                               memoryAt(desc, data));
  };
  static constexpr float kMinusOne = -1;
  dnnl::memory::desc one = describe(Dims(dims.size(), 1));
  for (const Step &step : steps_) {
    if (step.kind == TENSMITH_STEP_SCALE)
      put(one, &step.number);
    if (step.kind == TENSMITH_STEP_SUBTRACT_FROM) { // it is two
      put(one, &kMinusOne);
      ++place;
    }
    if (isFull(step.kind) && step.operand != result_)
      put(describe(dims, strides), step.operand + offset);
    else if (step.operand && !isFull(step.kind))
      put(describe(ofColumns(dims, channel)), step.operand + column);
    ++place;
  }
}

int32_t guarded(const TensmithCall *call, const std::function<void()> &run) {
  try {
    run();
    return 0;
  } catch (const dnnl::error &error) {
    return call->services->fail(call, TENSMITH_FAIL_REFUSED, error.status);
  } catch (const std::exception &) {
    return call->services->fail(call, TENSMITH_FAIL_NO_MEMORY, 0);
  }
}

} // namespace tensmith::onednn

extern "C" __attribute__((visibility("default"))) void tensmith_forget(const void *begin,
                                                                       const void *end) {
  tensmith::onednn::Weights::forget(begin, end);
}
