// JSON-RPC messages, and what each asks of a program; see ProgramServer.h.
//
// A document is read and typed anew when it changes: programs are small, and it takes milliseconds.
#include "tools/tensmith-lsp/ProgramServer.h"

#include "compiler/graph/Dialects.h"
#include "frontends/text/Lexer.h"
#include "frontends/text/Program.h"
#include "tools/tensmith-lsp/ComprehensionDocument.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

namespace tensmith::lsp {
namespace {

constexpr size_t kLargestMessage = size_t(64) << 20;

/// The body of the next message; nothing at the end of the input, or where no length is given.
std::optional<std::string> readMessage(std::istream &in) {
  size_t length = 0;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r')
      line.pop_back();
    if (line.empty())
      break;
    constexpr std::string_view kLength = "Content-Length:";
    if (line.starts_with(kLength))
      length = std::strtoull(line.c_str() + kLength.size(), nullptr, 10);
  }
  if (!in || length == 0 || length > kLargestMessage)
    return std::nullopt;
  std::string body(length, '\0');
  in.read(body.data(), std::streamsize(length));
  return in ? std::optional(std::move(body)) : std::nullopt;
}

void send(const Json &message) {
  std::string body = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::cout << "Content-Length: " << body.size() << "\r\n\r\n" << body << std::flush;
}

std::string describe(const text::OperatorInfo &info) {
  std::string result = std::string(info.name) + "(";
  auto add = [&](std::string_view name, const char *mark) {
    result += (result.back() == '(' ? "" : ", ") + std::string(name) + mark;
  };
  for (const auto &operand : info.operands)
    add(operand.name, operand.kind == text::OperandKind::Optional   ? "?"
                      : operand.kind == text::OperandKind::Variadic ? "..."
                                                                    : "");
  for (const auto &attribute : info.attributes)
    add(attribute.name, attribute.required ? " =" : " =?");
  return result + "): " + std::string(info.summary);
}

class ProgramDocument final : public Document {
public:
  ProgramDocument(const std::string &text, const std::string &uri, mlir::MLIRContext &context)
      : Document(text, tokensOf(text)), program_(text_, uri, folderOf(uri), context) {}

  Json diagnostics() const override {
    Json result = Json::array();
    for (const text::Message &message : program_.messages) {
      // What is wrong in another file is told where that is imported.
      bool own = message.place.file == 0;
      text::Place place = own ? message.place : program_.files[message.place.file].importedAt;
      result.push_back(
          messageAt(place, (own ? "" : program_.at(message.place) + ": ") + message.text));
    }
    return result;
  }

  Json completion(uint32_t, uint32_t) override {
    Json items = Json::array();
    bool typed = program_.messages.empty();
    for (const auto &[name, function] : program_.names.functions)
      add(items, name, function->constant ? 21 : 3, typed ? signatureOf(*function) : "");
    for (const auto &[name, constructor] : program_.names.constructors)
      add(items, name, 4, describeConstructor(constructor));
    for (const auto &[name, type] : program_.names.types)
      add(items, name, 7, "a data type");
    for (const text::OperatorInfo &info : text::allOperators())
      add(items, info.name, 24, describe(info));
    for (const char *word :
         {"fn", "let", "if", "else", "match", "type", "true", "false", "load", "ref", "import"})
      add(items, word, 14, "");
    return items;
  }

  Json formatting() const override {
    std::vector<text::Message> messages;
    std::vector<text::Comment> comments;
    text::Module module = text::parse(text_, messages, &comments);
    if (!messages.empty())
      return nullptr;
    return replacedBy(text::print(module, comments));
  }

private:
  static std::string folderOf(const std::string &uri) {
    constexpr std::string_view kFile = "file://";
    return uri.starts_with(kFile)
               ? std::filesystem::path(uri.substr(kFile.size())).parent_path().string()
               : "";
  }

  static std::vector<text::Token> tokensOf(const std::string &text) {
    std::vector<text::Message> ignored;
    return text::tokenize(text, ignored);
  }

  std::string describeConstructor(const text::ConstructorInfo &info) const {
    const text::ConstructorDecl &decl = info.type->constructors[info.tag];
    std::string fields;
    for (const text::TypeExpr &field : decl.fields)
      fields += (fields.empty() ? "" : ", ") + text::print(field);
    return decl.name + (fields.empty() ? "" : "(" + fields + ")") + ", of " + info.type->name;
  }

  /// With the result that follows, where the parameters have types.
  std::string signatureOf(const text::FunctionDecl &function) {
    text::Term *type = program_.inference.declared(function);
    bool known = !function.prelude && !function.constant &&
                 std::all_of(type->parts.begin(), type->parts.end() - 1, text::Types::isKnown);
    if (!known)
      return program_.inference.signature(function);
    program_.inference.instance(function, type);
    return function.name + ": " + program_.types.print(type);
  }

  /// The type that a name has there, or what it is at the top.
  std::string describeWord(const text::Token &token) override {
    bool typed = program_.messages.empty();
    if (std::string type = typed ? typeAt(token.place) : ""; !type.empty())
      return token.text + ": " + type;
    if (auto found = program_.names.functions.find(token.text);
        typed && found != program_.names.functions.end())
      return signatureOf(*found->second);
    if (auto found = program_.names.constructors.find(token.text);
        found != program_.names.constructors.end())
      return describeConstructor(found->second);
    const text::OperatorInfo *info = text::findOperator(token.text);
    return info ? describe(*info) : "";
  }

  /// Of an expression or pattern in a function whose parameters have types.
  std::string typeAt(text::Place place) {
    for (const text::FunctionDecl &function : program_.module.functions) {
      if (function.prelude)
        continue;
      for (const text::Parameter &param : function.params)
        if (isAt(param.place, place) && param.type)
          return text::print(*param.type);
      text::Term *type = program_.inference.declared(function);
      if (!std::all_of(type->parts.begin(), type->parts.end() - 1, text::Types::isKnown))
        continue;
      text::Typing typing = program_.inference.instance(function, type);
      for (const auto &[expr, term] : typing.exprs)
        if (expr->kind == Expr::Kind::Name && isAt(expr->place, place))
          return program_.types.print(term);
      for (const auto &[pattern, term] : typing.patterns)
        if (pattern->kind == text::Pattern::Kind::Name && isAt(pattern->place, place))
          return program_.types.print(term);
    }
    return {};
  }

  using Expr = text::Expr;
  text::Program program_;
};

class Server {
public:
  Server() : context_(registry(), mlir::MLIRContext::Threading::DISABLED) {
    context_.loadAllAvailableDialects();
  }

  int run() {
    while (auto body = readMessage(std::cin)) {
      Json message = Json::parse(*body, nullptr, /*allow_exceptions=*/false);
      if (message.is_discarded() || !message.is_object()) {
        send({{"jsonrpc", "2.0"}, {"id", nullptr}, {"error", error(-32700, "this is no JSON")}});
        continue;
      }
      if (message.value("method", "") == "exit")
        return shutdown_ ? 0 : 1;
      answer(message);
    }
    return 1;
  }

private:
  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry registry;
    graph::registerDialects(registry);
    return registry;
  }
  static Json error(int code, const std::string &text) {
    return {{"code", code}, {"message", text}};
  }

  void answer(const Json &message) {
    Json reply = {{"jsonrpc", "2.0"}};
    bool request = message.contains("id");
    if (request)
      reply["id"] = message["id"];
    try {
      reply["result"] = handle(message.value("method", ""), message.value("params", Json()), reply);
    } catch (const Json::exception &wrong) { // what is missing in the parameters
      reply["error"] = error(-32602, wrong.what());
    }
    if (reply.contains("error"))
      reply.erase("result");
    if (request)
      send(reply);
  }

  Json handle(const std::string &method, const Json &params, Json &reply) {
    if (method == "initialize")
      return {{"capabilities",
               {{"textDocumentSync", 1},
                {"hoverProvider", true},
                {"completionProvider", Json::object()},
                {"documentFormattingProvider", true}}},
              {"serverInfo", {{"name", "tensmith-lsp"}}}};
    if (method == "shutdown") {
      shutdown_ = true;
      return nullptr;
    }
    if (method == "textDocument/didOpen")
      return open(params.at("textDocument").at("uri"), params.at("textDocument").at("text"));
    if (method == "textDocument/didChange")
      return open(
          params.at("textDocument").at("uri"),
          params.at("contentChanges").at(params.at("contentChanges").size() - 1).at("text"));
    if (method == "textDocument/didClose")
      return documents_.erase(params.at("textDocument").at("uri").get<std::string>()), nullptr;
    if (method == "textDocument/hover" || method == "textDocument/completion" ||
        method == "textDocument/formatting") {
      auto found = documents_.find(params.at("textDocument").at("uri").get<std::string>());
      if (found == documents_.end())
        return nullptr;
      if (method == "textDocument/completion")
        return found->second->completion(params.at("position").at("line"),
                                         params.at("position").at("character"));
      if (method == "textDocument/formatting")
        return found->second->formatting();
      return found->second->hover(params.at("position").at("line"),
                                  params.at("position").at("character"));
    }
    if (!method.starts_with("$/"))
      reply["error"] = error(-32601, "there is no method '" + method + "'");
    return nullptr;
  }

  Json open(const std::string &uri, const std::string &text) {
    if (std::string_view(uri).ends_with(".tc"))
      documents_[uri] = std::make_unique<ComprehensionDocument>(text, context_);
    else
      documents_[uri] = std::make_unique<ProgramDocument>(text, uri, context_);
    send({{"jsonrpc", "2.0"},
          {"method", "textDocument/publishDiagnostics"},
          {"params", {{"uri", uri}, {"diagnostics", documents_[uri]->diagnostics()}}}});
    return nullptr;
  }

  mlir::MLIRContext context_;
  std::map<std::string, std::unique_ptr<Document>> documents_;
  bool shutdown_ = false;
};

} // namespace

int serve() { return Server().run(); }

} // namespace tensmith::lsp
