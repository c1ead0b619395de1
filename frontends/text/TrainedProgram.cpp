// The constants' values as text; see TrainedProgram.h.
#include "frontends/text/TrainedProgram.h"

#include "frontends/text/Evaluator.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tensmith::text {
namespace {

class Writing {
public:
  Writing(Program &program, const std::set<std::string> &tensors)
      : program_(program), tensors_(tensors) {}

  /// "let first = (load(...), ...)".
  Result<std::string> declaration(const FunctionDecl &constant) {
    Term *type = program_.inference.declared(constant)->parts.back();
    program_.inference.instance(constant, program_.types.function({type}));
    auto value = evaluateConstant(program_, constant, type, {});
    if (!value.ok())
      return value.status();
    std::string text = "let " + constant.name + " = ";
    if (Status status = write(**value, type, constant.name, text); !status.ok())
      return status.within(program_.at(constant.place));
    return text + '\n';
  }

private:
  Status write(const Value &value, Term *term, const std::string &name, std::string &text) {
    Term *type = Types::find(term);
    if (value.kind == Value::Kind::Tensor)
      return tensor(value.tensor, name, text);
    if (value.kind != Value::Kind::Data)
      return unsupported("'" + name + "' is a function among weights, which can't be written down");
    std::vector<Term *> types = type->parts;
    std::string constructor;
    if (type->kind == Term::Kind::Data) {
      const TypeDecl *decl = program_.names.types.at(type->name);
      types = program_.inference.fields({decl, value.tag}, type);
      constructor = decl->constructors[value.tag].name;
      if (types.empty()) {
        text += constructor;
        return {};
      }
    }
    text += constructor + '(';
    for (size_t i = 0; i < value.fields.size(); ++i) {
      text += i ? ", " : "";
      std::string part = name + '.' + std::to_string(i);
      if (Status status = write(*value.fields[i], types[i], part, text); !status.ok())
        return status;
    }
    text += constructor.empty() && value.fields.size() == 1 ? ",)" : ")";
    return {};
  }

  Status tensor(const HostTensor &tensor, const std::string &name, std::string &text) {
    if (tensors_.contains(name)) {
      text += "load(\"" + weightFile(name) + "\")";
      return {};
    }
    if (tensor.rank() != 0)
      return unsupported("'" + name +
                         "' stands among weights and is no parameter, so it can't be "
                         "written down; let it be a constant of its own");
    std::string number = std::to_string(tensor.getInt(0));
    if (tensor.type() == DataType::Bool)
      number = tensor.getInt(0) ? "true" : "false";
    if (double value = isFloat(tensor.type()) ? tensor.getDouble(0) : 0; !std::isfinite(value))
      number = std::isnan(value) ? "0.0 / 0.0" : value < 0 ? "-1.0 / 0.0" : "1.0 / 0.0";
    else if (isFloat(tensor.type())) {
      std::array<char, 32> digits;
      auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                               std::chars_format::scientific);
      number.assign(digits.data(), end.ptr);
    }
    text += '(' + number + " : " + std::string(tensmith::name(tensor.type())) + "[])";
    return {};
  }

  Program &program_;
  const std::set<std::string> &tensors_;
};

bool hasTensors(const FunctionDecl &constant, const std::set<std::string> &tensors) {
  auto found = tensors.lower_bound(constant.name + ".");
  return tensors.contains(constant.name) ||
         (found != tensors.end() && found->starts_with(constant.name + "."));
}

} // namespace

std::string weightFile(const std::string &name) { return "weights/" + name + ".npy"; }

Result<std::string> withWeights(const std::string &text, const std::string &name,
                                const std::string &folder, const std::set<std::string> &tensors,
                                mlir::MLIRContext &context) {
  Program program(text, name, folder, context);
  if (!program.messages.empty())
    return program.status();
  std::string declarations;
  for (const FunctionDecl &function : program.module.functions)
    if (function.constant && hasTensors(function, tensors)) {
      auto declared = Writing(program, tensors).declaration(function);
      if (!declared.ok())
        return declared.status();
      declarations += *declared;
    }
  Files files{{name, {}}};
  std::vector<Message> messages;
  Module own = withImports(parse(text, messages), folder, files, messages);
  std::erase_if(own.functions, [&](const FunctionDecl &function) {
    return function.constant && hasTensors(function, tensors);
  });
  std::string whole = declarations + "\n" + print(own);
  Module module = parse(whole, messages);
  if (!messages.empty())
    return Status(StatusCode::Internal, name + ": the trained program can't be written");
  return print(module);
}

} // namespace tensmith::text
