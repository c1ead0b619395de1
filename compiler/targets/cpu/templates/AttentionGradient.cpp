// Rows of scores, gone over and multiplied again, a block at a time; see AttentionGradient.h.
#include "compiler/targets/cpu/templates/AttentionGradient.h"

#include "compiler/kernel/RowShape.h"
#include "compiler/kernel/RowSweep.h"
#include "compiler/targets/cpu/templates/Blocking.h"
#include "compiler/targets/cpu/templates/RegisterTile.h"

using namespace mlir;

namespace tensmith::kernel {
namespace choice {
/// Tiles of queries in a block.
static constexpr Choice blockTiles{"block_tiles", 1, 64};
} // namespace choice

namespace {

constexpr const Choice *kChoices[] = {&choice::blockTiles, &choice::steps, &choice::linesAhead,
                                      &choice::vectors};

/// Rows lie apart by more than their length, so that they don't fall into the same cache sets.
constexpr int64_t kRowPadding = 16;
/// The part of the second-level cache that a block's rows fill: the others are for panels and sums.
constexpr int64_t kPartOfCache = 4;
/// Tiles of a block, above which loading and storing the sums over blocks costs nothing any more.
constexpr int64_t kMostTiles = 16;

/// The rows that a product of rows multiplies, or their transposition.
graph::TransposeOp transposition(const Contraction &product) {
  return product.left.getDefiningOp<graph::TransposeOp>();
}
Value rowsOf(const Contraction &product) {
  auto transpose = transposition(product);
  return transpose ? transpose.getX() : product.left;
}

bool isStack(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() >= 3 && type.getElementType().isF32();
}

class Matcher {
public:
  explicit Matcher(graph::KernelOp kernel) : body_(kernel.getBody().front()) {}

  std::optional<AttentionGradient> match() {
    auto softmaxes = body_.getOps<graph::SoftmaxOp>();
    if (!llvm::hasSingleElement(softmaxes))
      return std::nullopt;
    softmax_ = *softmaxes.begin();
    found_.scores = softmax_.getX();
    found_.weights = softmax_.getResult();
    auto type = cast<RankedTensorType>(found_.weights.getType());
    if (!isStack(found_.weights) || softmax_.getAxis() != uint64_t(type.getRank() - 1))
      return std::nullopt;
    for (Operation &op : body_.without_terminator())
      if (!take(&op))
        return std::nullopt;
    for (Value result : body_.getTerminator()->getOperands())
      if (!isa<graph::MatMulOp, graph::ReduceSumOp>(result.getDefiningOp())) {
        if (!isRows(result))
          return std::nullopt;
        found_.stored.push_back(result);
      }
    auto results = body_.getTerminator()->getNumOperands();
    bool isWhole = found_.ofRows.size() + found_.overRows.size() + found_.overMatrices.size() +
                       found_.stored.size() ==
                   results;
    // The way there has the scores alone, and makes rows of its result of them.
    bool isWayBack = found_.made.size() > 1 || (!found_.made.empty() && !found_.overRows.empty());
    return isWhole && isWayBack && findReaders() ? std::optional(std::move(found_)) : std::nullopt;
  }

private:
  /// Whether the first product is that of the scores, and what reads them.
  bool findReaders() {
    auto scores = scoresBehind(softmax_);
    if (!scores || scores->product != found_.made.front().root)
      return false;
    auto isScore = [&](Operation *op) {
      return op == softmax_ || scores->elementwise.contains(op);
    };
    auto isHeld = [&](Operation *op) { return llvm::all_of(op->getUsers(), isScore); };
    found_.readsScores = !isHeld(scores->product) || !llvm::all_of(scores->elementwise, isHeld);
    return true;
  }

  std::optional<RowShape> shapeOf(Value value) const {
    return rowShapeOf(dyn_cast<RankedTensorType>(value.getType()),
                      cast<RankedTensorType>(found_.weights.getType()));
  }
  bool isRows(Value value) const {
    return value.getDefiningOp() && isStack(value) && shapeOf(value) == RowShape::Whole;
  }

  /// Whether there are as many matrices as of scores.
  bool isOfStack(Value value) const {
    graph::ShapeContext shapes(value.getContext());
    auto own = shapes.dims(value.getType()), all = shapes.dims(found_.weights.getType());
    return own.size() == all.size() &&
           llvm::all_of(
               llvm::zip(ArrayRef(own).drop_back(2), ArrayRef(all).drop_back(2)),
               [&](auto pair) { return shapes.equal(std::get<0>(pair), std::get<1>(pair)); });
  }

  bool take(Operation *op) {
    if (isa<graph::MatMulOp>(op))
      return takeProduct(op);
    if (auto sum = dyn_cast<graph::ReduceSumOp>(op)) {
      auto type = cast<RankedTensorType>(sum.getX().getType());
      if (!isRows(sum.getX()) || !sum.getKeepdims())
        return false;
      if (sum.getAxes() == ArrayRef<int64_t>(type.getRank() - 1)) {
        found_.sums.push_back(sum);
        return true;
      }
      found_.overMatrices.push_back(sum);
      return sum.getAxes() == found_.summedDimensions() &&
             llvm::all_of(sum.getAxes(), [&](int64_t axis) { return axis < type.getRank() - 2; }) &&
             llvm::all_of(op->getUsers(),
                          [&](Operation *user) { return user == body_.getTerminator(); });
    }
    if (auto transpose = dyn_cast<graph::TransposeOp>(op))
      return isRows(transpose.getX()) && swapsLast(transpose) &&
             llvm::all_of(op->getUsers(), llvm::IsaPred<graph::MatMulOp>);
    return op == softmax_ || isa<graph::Elementwise, graph::UnpackOp>(op) ||
           op->getNumOperands() == 0;
  }

  bool takeProduct(Operation *op) {
    auto product = matchContraction(op);
    if (!product || product->step != 1 || !isStack(op->getResult(0)) || !isStack(product->left) ||
        cast<RankedTensorType>(product->panels.getType()).getRank() < 4)
      return false;
    bool isResult = op->hasOneUse() && *op->user_begin() == body_.getTerminator();
    if (!isOfStack(op->getResult(0)))
      return false;
    if (!isResult) {
      found_.made.push_back(*product);
      return isRows(op->getResult(0)) && rowPlace(*product) != RowPlace::Copied;
    }
    (transposition(*product) ? found_.overRows : found_.ofRows).push_back(*product);
    return isRows(rowsOf(*product));
  }

  Block &body_;
  graph::SoftmaxOp softmax_;
  AttentionGradient found_;
};

/// A product with the register tile that does it.
struct Product {
  Product(ElementEmitter &emitter, graph::KernelOp kernel, const Contraction &contraction,
          const Machine &machine, const Point &asked, TileEmitter::Finish finish)
      : contraction(contraction), source(emitter, contraction),
        extents(emitter.math, emitter.sizes, contraction),
        tiles(emitter, kernel, contraction, machine, source, extents, std::move(finish), asked) {}

  const Contraction &contraction;
  RowSource source;
  Extents extents;
  TileEmitter tiles;
};

/// How many rows are in a block, and what the thread's memory holds.
struct Layout {
  Layout(IndexMath &math, const AttentionGradient &gradient, const Machine &machine,
         const Point &asked, const SizeValues &sizes) {
    for (const auto *products : {&gradient.ofRows, &gradient.overRows})
      for (const Contraction &product : *products)
        if (!llvm::is_contained(kept, rowsOf(product)))
          kept.push_back(rowsOf(product));
    buffers = int64_t(std::max(kept.size(), gradient.made.size() + gradient.readsScores));
    SmallVector<Value> dims = dimValues(math, sizes, gradient.weights.getType());
    columns = dims.back();
    Value padding = math.constant(kRowPadding);
    stride = math.add(math.mul(math.ceilDiv(columns, padding), padding), padding);
    rows = Blocking::ofRows(math, dims[dims.size() - 2], kTileRows);
    keys = Blocking::ofRows(math, columns, kTileRows);
    Value fitting = math.div(math.constant(machine.l2Bytes / kPartOfCache),
                             math.mul(stride, buffers * kTileRows * kFloat));
    tilesOfBlock = math.max(math.min(fitting, math.constant(kMostTiles)), math.constant(1));
    if (auto wanted = asked[choice::blockTiles])
      tilesOfBlock = math.constant(*wanted);
    bytesOfBuffer = math.mul(math.mul(tilesOfBlock, stride), kTileRows * kFloat);
    lastTile = math.max(rows.tiles, math.constant(1));
    blocks = math.ceilDiv(lastTile, tilesOfBlock);
  }

  static constexpr int64_t kFloat = 4;
  int64_t buffers;
  Value columns, stride, tilesOfBlock, bytesOfBuffer;
  /// Of no rows there is one block, too: what is summed over them is zero.
  Value lastTile, blocks;
  SmallVector<Value> kept; // rows that are multiplied, a buffer each
  Blocking rows, keys;     // of a matrix of scores: its rows, and its columns as rows
};

class Emitter {
public:
  Emitter(ElementEmitter &emitter, graph::KernelOp kernel, const AttentionGradient &gradient,
          const Machine &machine, const Point &asked, const Layout &layout, ValueRange results)
      : emitter_(emitter), math_(emitter.math), gradient_(gradient), layout_(layout),
        sweep_(emitter, layout.columns, machine.lanes(Layout::kFloat), asked) {
    auto add = [&](auto &to, const Contraction &product, TileEmitter::Finish finish) {
      to.push_back(
          std::make_unique<Product>(emitter, kernel, product, machine, asked, std::move(finish)));
    };
    for (auto [number, product] : llvm::enumerate(gradient.made))
      add(made_, product,
          [this, number](const Position &at, Value slot, Value) { keep(number, at, slot); });
    auto yielded = kernel.getBody().front().getTerminator()->getOperands();
    auto addResults = [&](auto &to, ArrayRef<Contraction> products) {
      for (const Contraction &product : products) {
        Value value = product.root->getResult(0);
        Value result = results[llvm::find(yielded, value) - yielded.begin()];
        add(to, product, [this, value, result](const Position &at, Value, Value row) {
          Value offset = math_.add(math_.mul(row, emitter_.dims(value).back()), at.indices.back());
          emitter_.store(result, f32(), offset, emitter_.element(value, at), at.mask);
        });
      }
    };
    addResults(ofRows_, gradient.ofRows);
    addResults(overRows_, gradient.overRows);
    for (graph::ReduceSumOp sum : gradient.overMatrices)
      overMatrices_.push_back(results[llvm::find(yielded, sum.getResult()) - yielded.begin()]);
    for (auto [value, result] : llvm::zip_equal(yielded, results))
      if (llvm::is_contained(gradient.stored, value))
        stored_.emplace_back(value, result);
  }

  /// The memory that one matrix of the stack takes.
  Value scratchBytes() {
    Value bytes = math_.mul(layout_.bytesOfBuffer, layout_.buffers);
    for (auto &product : overRows_)
      bytes = math_.add(bytes, bytesOfSums(*product));
    return bytes;
  }

  /// Of a work item: one matrix, or several that are summed; all queries, or a block of them.
  void emitItem(Value item, Value scratch) {
    buffers_.clear();
    for (int64_t number = 0; number < layout_.buffers; ++number)
      buffers_.push_back(bytePointer(math_, scratch, math_.mul(layout_.bytesOfBuffer, number)));
    sums_ = bytePointer(math_, scratch, math_.mul(layout_.bytesOfBuffer, layout_.buffers));
    Value begin = math_.constant(0), end = layout_.lastTile;
    if (gradient_.cutsQueries()) {
      begin = math_.mul(math_.rem(item, layout_.blocks), layout_.tilesOfBlock);
      end = math_.add(begin, 1);
      item = math_.div(item, layout_.blocks);
    }
    item_ = item;
    if (overMatrices_.empty())
      return emitMatrix(item, begin, end);
    clearSums(begin, end);
    SmallVector<Value> stack = emitter_.dims(gradient_.weights), own, summed;
    stack.truncate(stack.size() - 2);
    for (auto [number, size] : llvm::enumerate(stack))
      (isSummed(number) ? summed : own).push_back(size);
    SmallVector<Value> ownAt = math_.delinear(item, own);
    emitFor(math_, math_.constant(0), math_.product(summed), math_.constant(1), [&](Value next) {
      SmallVector<Value> summedAt = math_.delinear(next, summed), at;
      size_t ofOwn = 0, ofSummed = 0;
      for (size_t number = 0; number < stack.size(); ++number)
        at.push_back(isSummed(number) ? summedAt[ofSummed++] : ownAt[ofOwn++]);
      emitMatrix(math_.linear(at, stack), begin, end);
    });
  }

private:
  /// Of blocks that begin with one of these tiles.
  void emitMatrix(Value batch, Value begin, Value end) {
    batch_ = batch;
    emitFor(math_, begin, end, layout_.tilesOfBlock, [&](Value tile) { emitBlock(tile); });
  }

  bool isSummed(size_t dimension) const {
    return llvm::is_contained(gradient_.summedDimensions(), int64_t(dimension));
  }

  /// Where a row of a matrix begins, or of an item's sums.
  Value offsetOf(Value matrix, Value row) {
    return math_.mul(math_.add(math_.mul(matrix, queries()), row), layout_.columns);
  }
  Value queries() { return ArrayRef(emitter_.dims(gradient_.weights)).take_back(2).front(); }
  /// In rows of blocks that begin with one of these tiles.
  void clearSums(Value begin, Value end) {
    emitFor(math_, begin, end, layout_.tilesOfBlock, [&](Value tile) {
      takeBlock(tile);
      emitFor(math_, first_, last_, math_.constant(1), [&](Value row) { clearSums(row); });
    });
  }
  void clearSums(Value row) {
    sweep_.each([&](const RowSweep::Columns &columns) {
      Value number =
          math_.builder.create<arith::ConstantOp>(math_.location, math_.builder.getF32FloatAttr(0));
      Value zero = emitter_.splat(number, columns.lanes);
      for (Value sum : overMatrices_)
        emitter_.store(sum, f32(), math_.add(offsetOf(item_, row), columns.first), zero,
                       columns.mask);
    });
  }
  void addToSum(size_t number, Value row, const RowSweep::Columns &columns, Value element) {
    graph::ScalarCode code(emitter_.builder(), math_.location);
    Value offset = math_.add(offsetOf(item_, row), columns.first), sum = overMatrices_[number];
    Value before = emitter_.load(sum, f32(), offset, columns.lanes, columns.mask);
    emitter_.store(sum, f32(), offset, code.add(before, element), columns.mask);
  }

  Type f32() { return emitter_.builder().getF32Type(); }
  Value row(size_t buffer, Value slot) {
    return elementPointer(math_, f32(), buffers_[buffer], math_.mul(slot, layout_.stride));
  }

  Value bytesOfSums(Product &product) {
    Value line = math_.mul(layout_.columns, product.contraction.width * Layout::kFloat);
    return math_.mul(product.extents.panels, line);
  }

  void takeBlock(Value tile) {
    firstTile_ = tile;
    lastTile_ = math_.min(math_.add(tile, layout_.tilesOfBlock), layout_.rows.tiles);
    first_ = layout_.rows.firstRow(math_, firstTile_);
    last_ = layout_.rows.firstRow(math_, lastTile_);
  }

  void emitBlock(Value tile) {
    takeBlock(tile);
    for (auto &product : made_)
      passPanels(*product, layout_.rows, firstTile_, lastTile_, first_);
    emitFor(math_, first_, last_, math_.constant(1), [&](Value row) { finishRow(row); });
    for (auto &product : ofRows_) {
      product->source.hold(bufferOf(*product), layout_.stride, math_.constant(1));
      passPanels(*product, layout_.rows, firstTile_, lastTile_, first_);
    }
    Value sums = sums_;
    for (auto &product : overRows_) {
      addRows(*product, sums);
      sums = bytePointer(math_, sums, bytesOfSums(*product));
    }
  }

  Value bufferOf(const Product &product) {
    Value rows = rowsOf(product.contraction);
    return buffers_[llvm::find(layout_.kept, rows) - layout_.kept.begin()];
  }

  /// Tiles of rows against all panels; the first row is that of slot 0.
  void passPanels(Product &product, const Blocking &blocking, Value firstTile, Value lastTile,
                  Value firstRow) {
    Value one = math_.constant(1), count = math_.sub(lastTile, firstTile);
    Value most = constantIndex(count) ? count : layout_.tilesOfBlock;
    emitFor(math_, math_.constant(0), product.extents.panels, one, [&](Value panel) {
      emitFor(math_, firstTile, lastTile, one, [&](Value tile) {
        product.tiles.beginPrefetch(math_.sub(tile, firstTile), count, most);
        emitRowTile(math_, blocking, tile, [&](const RowGroup &rows) {
          Value slot = math_.sub(rows.first, firstRow);
          product.tiles.beginRows(batch_, TileRows(math_, rows, slot));
          product.tiles.emitPanel(panel, /*masked=*/!rows.isWhole);
        });
      });
    });
  }

  /// What the block's rows add to a sum over all of them: k goes from the first to the last.
  void addRows(Product &product, Value sums) {
    Value zero = math_.constant(0);
    Value before = math_.sub(zero, math_.mul(first_, layout_.stride));
    Value rows = elementPointer(math_, f32(), bufferOf(product), before);
    product.source.hold(rows, math_.constant(1), layout_.stride);
    product.tiles.beginPart({.begin = first_,
                             .end = last_,
                             .isFirst = math_.less(firstTile_, math_.constant(1)),
                             .isLast = math_.less(layout_.rows.tiles, math_.add(lastTile_, 1)),
                             .sums = sums,
                             .firstPanel = zero,
                             .lastPanel = product.extents.panels,
                             .rows = layout_.columns});
    passPanels(product, layout_.keys, zero, layout_.keys.tiles, zero);
  }

  /// A vector of a product that rows are made of: the softmax's operand, or the product itself.
  void keep(size_t number, const Position &at, Value slot) {
    Value product = gradient_.made[number].root->getResult(0);
    auto store = [&](size_t buffer, Value value) {
      emitter_.store(row(buffer, slot), f32(), at.indices.back(), emitter_.element(value, at),
                     at.mask);
    };
    store(number, number == 0 ? gradient_.scores : product);
    if (number == 0 && gradient_.readsScores)
      store(gradient_.made.size(), product);
  }

  void finishRow(Value number) {
    SmallVector<Value> dims = emitter_.dims(gradient_.weights);
    SmallVector<Value> outer = math_.delinear(batch_, ArrayRef(dims).drop_back(2));
    outer.push_back(number);
    Value slot = math_.sub(number, first_);
    defineRows(slot);
    for (graph::ReduceSumOp sum : gradient_.sums) {
      Value x = sum.getX();
      Value total =
          sweep_.reduce(vector::CombiningKind::ADD, [&](const RowSweep::Columns &columns) {
            return emitter_.element(x, position(outer, columns));
          });
      emitter_.define(sum.getResult(), [this, total](const Position &at) {
        return emitter_.splat(total, at.lanes);
      });
    }
    sweep_.each([&](const RowSweep::Columns &columns) {
      // All are read before one is stored where others lie.
      SmallVector<Value> elements, summed, stored;
      for (Value value : layout_.kept)
        elements.push_back(emitter_.element(value, position(outer, columns)));
      for (graph::ReduceSumOp sum : gradient_.overMatrices)
        summed.push_back(emitter_.element(sum->getOperand(0), position(outer, columns)));
      for (auto [rows, result] : stored_)
        stored.push_back(emitter_.element(rows, position(outer, columns)));
      for (auto [index, element] : llvm::enumerate(summed))
        addToSum(index, number, columns, element);
      for (auto [at, element] : llvm::zip_equal(stored_, stored))
        emitter_.store(at.second, f32(), math_.add(offsetOf(batch_, number), columns.first),
                       element, columns.mask);
      for (auto [buffer, element] : llvm::enumerate(elements))
        emitter_.store(row(buffer, slot), f32(), columns.first, element, columns.mask);
    });
  }

  /// The softmax and the other products, from the buffers.
  void defineRows(Value slot) {
    Value scores = row(0, slot);
    Value largest =
        sweep_.reduce(vector::CombiningKind::MAXIMUMF, [&](const RowSweep::Columns &at) {
          return emitter_.load(scores, f32(), at.first, at.lanes, at.mask);
        });
    Value scale = exponentiate(emitter_, sweep_, scores, largest);
    emitter_.define(gradient_.weights, [this, scores, scale](const Position &at) {
      graph::ScalarCode code(emitter_.builder(), math_.location);
      Value power = emitter_.load(scores, f32(), at.indices.back(), at.lanes, at.mask);
      return code.mul(power, emitter_.splat(scale, at.lanes));
    });
    auto define = [&](size_t number, size_t buffer) {
      Value kept = row(buffer, slot);
      emitter_.define(gradient_.made[number].root->getResult(0), [this, kept](const Position &at) {
        return emitter_.load(kept, f32(), at.indices.back(), at.lanes, at.mask);
      });
    };
    for (size_t number = 1; number < gradient_.made.size(); ++number)
      define(number, number);
    if (gradient_.readsScores)
      define(0, gradient_.made.size());
  }

  static Position position(ArrayRef<Value> outer, const RowSweep::Columns &columns) {
    Position at{SmallVector<Value>(outer), columns.lanes, columns.mask};
    at.indices.push_back(columns.first);
    return at;
  }

  ElementEmitter &emitter_;
  IndexMath &math_;
  const AttentionGradient &gradient_;
  const Layout &layout_;
  RowSweep sweep_;
  std::vector<std::unique_ptr<Product>> made_, ofRows_, overRows_;
  SmallVector<Value> buffers_;
  SmallVector<Value> overMatrices_;             // results
  SmallVector<std::pair<Value, Value>> stored_; // rows, and the result that they are
  Value sums_, batch_, item_;
  Value firstTile_, lastTile_, first_, last_; // of the block: tiles and rows
};

} // namespace

std::optional<AttentionGradient> matchAttentionGradient(graph::KernelOp kernel) {
  return Matcher(kernel).match();
}

static KernelParts attentionGradientParts(graph::KernelOp kernel, const AttentionGradient &gradient,
                                          const Machine &machine, const Point &asked) {
  KernelParts parts;
  parts.summary = "attention's gradient";
  parts.items = [=](IndexMath &math, const SizeValues &sizes) -> WorkItems {
    SmallVector<Value> dims = dimValues(math, sizes, gradient.weights.getType());
    auto last = [&](Value value) { return dimValues(math, sizes, value.getType()).back(); };
    Value products = math.constant(0); // of each score
    for (const Contraction &product : gradient.made)
      products = math.add(products, last(product.left));
    for (const auto *results : {&gradient.ofRows, &gradient.overRows})
      for (const Contraction &product : *results)
        products = math.add(products, last(product.root->getResult(0)));
    // A multiply-add in a tile costs a fraction of a scalar operation.
    Value work = math.mul(math.product(ArrayRef(dims).take_back(2)), products);
    SmallVector<Value> items;
    for (auto [dimension, size] : llvm::enumerate(ArrayRef(dims).drop_back(2)))
      if (llvm::is_contained(gradient.summedDimensions(), int64_t(dimension)))
        work = math.mul(work, size);
      else
        items.push_back(size);
    if (gradient.cutsQueries()) {
      Value blocks = Layout(math, gradient, machine, asked, sizes).blocks;
      items.push_back(blocks);
      work = math.div(work, blocks);
    }
    return {math.product(items), grainOf(math, math.div(work, math.constant(8))),
            asked.of(kChoices)};
  };
  parts.body = [=](ElementEmitter &emitter, ValueRange results, Value begin, Value end) {
    IndexMath &math = emitter.math;
    Layout layout(math, gradient, machine, asked, emitter.sizes);
    Emitter code(emitter, kernel, gradient, machine, asked, layout, results);
    Value scratch = emitScratch(emitter, code.scratchBytes(), begin, end);
    emitFor(math, begin, end, math.constant(1), [&](Value item) { code.emitItem(item, scratch); });
  };
  return parts;
}

const Template kAttentionGradient = {
    .name = algorithm::attentionGradient,
    .takes = [](graph::KernelOp kernel, Operation *,
                const Machine &) { return matchAttentionGradient(kernel).has_value(); },
    .parts =
        [](graph::KernelOp kernel, Operation *, const Machine &machine, const Point &asked) {
          return attentionGradientParts(kernel, *matchAttentionGradient(kernel), machine, asked);
        },
    .choices = kChoices,
    .space =
        [](graph::KernelOp, Operation *, const Machine &, Space &space) {
          space.addDoubling(choice::blockTiles, choice::blockTiles.most);
          space.addDoubling(choice::steps, choice::steps.most);
          space.add(choice::linesAhead, {0, 64, 128, 256, 512});
          space.addDoubling(choice::vectors, choice::vectors.most);
        },
    .multiplies = true,
};

} // namespace tensmith::kernel
