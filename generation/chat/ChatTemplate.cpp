// Rendering templates of chats: a walk over the statements; see ChatTemplate.h.
#include "generation/chat/ChatTemplate.h"

#include "files/Failure.h"
#include "generation/chat/JinjaFunctions.h"

#include <fmt/format.h>

namespace tensmith::generation {
namespace {

using namespace jinja;

constexpr int kMostDepth = 1000; // of statements and expressions within one another, in macros, too

class Renderer {
public:
  explicit Renderer(const Json &variables) : scopes_(1) {
    for (const auto &[name, value] : variables.items())
      scopes_[0][name] = valueOf(value);
    for (const char *name : {"true", "True"})
      scopes_[0][name] = valueOf(true);
    for (const char *name : {"false", "False"})
      scopes_[0][name] = valueOf(false);
    for (const char *name : {"none", "None"})
      scopes_[0][name] = valueOf(nullptr);
  }

  std::string render(const Statements &statements) {
    run(statements);
    return std::move(output_);
  }

private:
  enum class Way { On, Break, Continue };
  struct Loop {
    const std::vector<Value> *items;
    size_t index;
  };
  using Scope = std::map<std::string, Value>;
  struct Deeper {
    explicit Deeper(Renderer &of) : of(of) {
      if (++of.depth_ > kMostDepth)
        of.work_.fail("what is evaluated is nested too deep");
    }
    ~Deeper() { --of.depth_; }
    Renderer &of;
  };

  // Statements.

  Way run(const Statements &statements) {
    for (const Statement &statement : statements) {
      work_.line = statement.line;
      work_.charge();
      Way way = run(statement);
      if (way != Way::On)
        return way;
    }
    return Way::On;
  }

  void write(const std::string &text) {
    work_.charge(text.size());
    output_ += text;
  }

  Way run(const Statement &s) {
    Deeper deeper(*this);
    switch (s.kind) {
    case Statement::Text:
      write(s.text);
      return Way::On;
    case Statement::Output:
      write(textOf(evaluate(*s.value), work_));
      return Way::On;
    case Statement::If:
      return run(isTrue(evaluate(*s.value)) ? s.body : s.otherwise);
    case Statement::For:
      return loop(s);
    case Statement::Set:
      scopes_.back()[s.text] = s.value ? evaluate(*s.value) : captured(s.body);
      return Way::On;
    case Statement::SetAttribute:
      setAttribute(s);
      return Way::On;
    case Statement::Macro:
      macros_[s.text] = &s;
      return Way::On;
    case Statement::Break:
      return Way::Break;
    case Statement::Continue:
      return Way::Continue;
    }
    return Way::On;
  }

  Value captured(const Statements &body) {
    std::string before = std::exchange(output_, {});
    run(body);
    return valueOf(std::exchange(output_, std::move(before)));
  }

  void setAttribute(const Statement &s) {
    Value value = evaluate(*s.value);
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (auto found = scope->find(s.text); found != scope->end() && found->second->is_object()) {
        Json changed = copied(found->second, work_);
        changed[s.names[0]] = copied(value, work_);
        found->second = valueOf(std::move(changed));
        return;
      }
    work_.fail(fmt::format("'{}' is no namespace", s.text));
  }

  Way loop(const Statement &s) {
    std::vector<Value> items;
    scopes_.emplace_back();
    for (const Value &item : itemsOf(evaluate(*s.value), work_)) {
      bind(s.names, item);
      if (!s.filter || isTrue(evaluate(*s.filter)))
        items.push_back(item);
    }
    loops_.push_back({&items, 0});
    for (size_t i = 0; i < items.size(); ++i) {
      scopes_.back().clear();
      loops_.back().index = i;
      bind(s.names, items[i]);
      if (run(s.body) == Way::Break)
        break;
    }
    loops_.pop_back();
    scopes_.pop_back();
    return items.empty() ? run(s.otherwise) : Way::On;
  }

  void bind(const std::vector<std::string> &names, const Value &item) {
    work_.charge();
    if (names.size() == 1) {
      scopes_.back()[names[0]] = item;
      return;
    }
    if (!item->is_array() || item->size() != names.size())
      work_.fail(
          fmt::format("what {} names stand for is not of {} parts", names.size(), names.size()));
    for (size_t i = 0; i < names.size(); ++i)
      scopes_.back()[names[i]] = Value(item, &(*item)[i]);
  }

  // Expressions.

  Value evaluate(const Expression &e) {
    Deeper deeper(*this);
    work_.charge(e.text.size());
    work_.line = e.line;
    switch (e.kind) {
    case Expression::Text:
      return valueOf(e.text);
    case Expression::Number:
      return valueOf(e.number);
    case Expression::Real:
      return valueOf(e.real);
    case Expression::Name:
      return variable(e.text);
    case Expression::List:
      return list(e);
    case Expression::Object:
      return object(e);
    case Expression::Attribute:
      return attribute(e);
    case Expression::Item: {
      Value of = evaluate(*e.operands[0]);
      return itemOf(of, evaluate(*e.operands[1]), work_);
    }
    case Expression::Slice:
      return slice(e);
    case Expression::Call:
      return call(e);
    case Expression::Filter:
    case Expression::Test:
      return filterOrTest(e);
    case Expression::Unary: {
      Value value = evaluate(*e.operands[0]);
      return e.text == "not" ? valueOf(!isTrue(value)) : binary("-", valueOf(0), value, work_);
    }
    case Expression::Binary:
      return binaryOf(e);
    case Expression::Choice:
      return isTrue(evaluate(*e.operands[0])) ? evaluate(*e.operands[1])
             : e.operands[2]                  ? evaluate(*e.operands[2])
                                              : kUndefined;
    }
    return kUndefined;
  }

  Value variable(const std::string &name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (auto found = scope->find(name); found != scope->end())
        return found->second;
    return kUndefined;
  }

  Value list(const Expression &e) {
    Json result = Json::array();
    for (const ExpressionPtr &operand : e.operands)
      result.push_back(copied(evaluate(*operand), work_));
    return valueOf(std::move(result));
  }

  Value object(const Expression &e) {
    Json result = Json::object();
    for (size_t i = 0; i < e.operands.size(); i += 2) {
      std::string key = textOf(evaluate(*e.operands[i]), work_);
      work_.charge(result.size());
      result[key] = copied(evaluate(*e.operands[i + 1]), work_);
    }
    return valueOf(std::move(result));
  }

  Value attribute(const Expression &e) {
    const Expression &of = *e.operands[0];
    if (of.kind == Expression::Name && of.text == "loop" && !loops_.empty())
      return ofLoop(e.text);
    return itemOf(evaluate(of), valueOf(e.text), work_);
  }

  Value ofLoop(const std::string &name) const {
    const auto &[items, index] = loops_.back();
    auto at = int64_t(index), count = int64_t(items->size());
    if (name == "previtem" || name == "nextitem") {
      size_t other = name == "nextitem" ? index + 1 : index - 1;
      return other < items->size() ? (*items)[other] : kUndefined;
    }
    if (name == "first" || name == "last")
      return valueOf(name == "first" ? at == 0 : at + 1 == count);
    const std::map<std::string, int64_t> numbers = {{"index", at + 1},
                                                    {"index0", at},
                                                    {"length", count},
                                                    {"revindex", count - at},
                                                    {"revindex0", count - at - 1}};
    auto found = numbers.find(name);
    if (found == numbers.end())
      work_.fail(fmt::format("loop.{} is not to be had here", name));
    return valueOf(found->second);
  }

  Value slice(const Expression &e) {
    Value of = evaluate(*e.operands[0]);
    auto part = [&](size_t i) -> std::optional<int64_t> {
      Value value = e.operands[i] ? evaluate(*e.operands[i]) : valueOf(nullptr);
      if (!value->is_null() && !value->is_number_integer())
        work_.fail("the parts of a slice are whole numbers");
      return value->is_null() ? std::nullopt : std::optional<int64_t>(*value);
    };
    std::optional<int64_t> first = part(1), end = part(2);
    return sliceOf(of, first, end, part(3).value_or(1), work_);
  }

  Value binaryOf(const Expression &e) {
    Value left = evaluate(*e.operands[0]);
    if (e.text == "and" || e.text == "or")
      return isTrue(left) == (e.text == "or") ? left : evaluate(*e.operands[1]);
    Value right = evaluate(*e.operands[1]);
    work_.line = e.line;
    return binary(e.text, left, right, work_);
  }

  Value filterOrTest(const Expression &e) {
    Value of = evaluate(*e.operands[0]);
    Arguments given = arguments(e);
    return e.kind == Expression::Filter ? filter(e.text, of, given, work_)
                                        : valueOf(test(e.text, of, given, work_));
  }

  Arguments arguments(const Expression &e) {
    Arguments given;
    size_t first = e.operands.size() - e.names.size();
    for (size_t i = 1; i < e.operands.size(); ++i) {
      Value value = evaluate(*e.operands[i]);
      if (i < first)
        given.values.push_back(value);
      else
        given.named[e.names[i - first]] = value;
    }
    work_.line = e.line;
    return given;
  }

  Value call(const Expression &e) {
    const Expression &of = *e.operands[0];
    if (of.kind == Expression::Attribute) {
      Value self = evaluate(*of.operands[0]);
      return method(of.text, self, arguments(e), work_);
    }
    if (of.kind != Expression::Name)
      work_.fail("what is called is no function");
    Arguments given = arguments(e);
    auto macro = macros_.find(of.text);
    return macro == macros_.end() ? function(of.text, given, work_)
                                  : callMacro(*macro->second, given);
  }

  /// A macro sees what stands outside of all loops, and its own arguments.
  Value callMacro(const Statement &macro, const Arguments &given) {
    Scope own;
    size_t first = macro.names.size() - macro.defaults.size();
    if (given.values.size() > macro.names.size())
      work_.fail(fmt::format("'{}' has {} parameters", macro.text, macro.names.size()));
    for (size_t i = 0; i < macro.names.size(); ++i) {
      auto named = given.named.find(macro.names[i]);
      own[macro.names[i]] = i < given.values.size()      ? given.values[i]
                            : named != given.named.end() ? named->second
                            : i >= first                 ? evaluate(*macro.defaults[i - first])
                                                         : kUndefined;
    }
    std::vector<Scope> outside = {scopes_[0], std::move(own)};
    std::vector<Loop> loops;
    work_.charge(64 * scopes_[0].size());
    std::swap(scopes_, outside), std::swap(loops_, loops);
    Value text = captured(macro.body);
    std::swap(scopes_, outside), std::swap(loops_, loops);
    return text;
  }

  std::vector<Scope> scopes_;
  std::vector<Loop> loops_;
  std::map<std::string, const Statement *> macros_;
  std::string output_;
  Work work_;
  int depth_ = 0;
};

} // namespace

ChatTemplate ChatTemplate::parse(const std::string &source) {
  ChatTemplate result;
  result.statements_ = std::make_shared<const Statements>(jinja::parse(source));
  return result;
}

std::string ChatTemplate::render(const Json &variables) const {
  return Renderer(variables).render(*statements_);
}

} // namespace tensmith::generation
