// Checks a plug-in's file, opens it, and adds its rows to the tables; see Plugin.h.
//
// A plug-in refers to names of the compiler that it isn't linked with: whichever program has the
// compiler shows them, be it libtensmith_compiler or tensmith-opt. A library that was opened with
// names of its own (dlopen's RTLD_LOCAL) makes them visible first.
#include "compiler/extend/Plugin.h"

#include "cache/LoadedPlugins.h"
#include "cache/Store.h"
#include "compiler/extend/Registry.h"
#include "compiler/graph/Graph.h"

#include "llvm/Demangle/Demangle.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <unistd.h>

namespace tensmith::extend {

/// The rows of one plug-in, on their way into the tables.
class Installation {
public:
  explicit Installation(const Registry &registry) : rows_(registry) {}

  Status run(const GiveReferences &giveReferences) {
    if (Status status = check(); !status.ok())
      return status;
    if (giveReferences)
      if (Status status = giveReferences(rows_.references_); !status.ok())
        return status;
    for (Status status :
         {graph::operatorDialects().add(rows_.dialects_),
          reference::evaluators().add(rows_.references_),
          graph::gradientRules().add(rows_.gradients_), graph::modelNames().add(rows_.names_),
          rewrite::rewrites().add(rows_.rewrites_),
          targets::intrinsicFamilies().add(rows_.intrinsics_),
          targets::targetKinds().add(rows_.targets_)})
      if (!status.ok())
        return status;
    for (const Registry::PlacedTemplate &placed : rows_.templates_)
      if (Status status = targets::vectorTemplates().add({{placed.row}}, placed.before);
          !status.ok())
        return status;
    return {};
  }

private:
  Status check() const {
    std::vector<const kernel::Template *> templates;
    for (const Registry::PlacedTemplate &placed : rows_.templates_)
      templates.push_back(placed.row);
    for (Status status :
         {graph::operatorDialects().check(rows_.dialects_),
          reference::evaluators().check(rows_.references_),
          graph::gradientRules().check(rows_.gradients_), graph::modelNames().check(rows_.names_),
          rewrite::rewrites().check(rows_.rewrites_), targets::vectorTemplates().check(templates),
          targets::intrinsicFamilies().check(rows_.intrinsics_),
          targets::targetKinds().check(rows_.targets_)})
      if (!status.ok())
        return status;
    for (const targets::TargetKind *kind : rows_.targets_)
      if (Status status = targets::checkKind(*kind); !status.ok())
        return status;
    if (Status status = checkMembers(); !status.ok())
      return status;
    for (const Registry::PlacedTemplate &placed : rows_.templates_)
      if (!placed.before.empty() && !targets::vectorTemplates().find(placed.before))
        return invalidArgument("there is no template '" + std::string(placed.before) +
                               "' to stand before");
    if (Status status = checkPlaces(); !status.ok())
      return status;
    return checkOperators();
  }

  /// Rows that say what they do.
  Status checkMembers() const {
    auto missing = [](const char *what, std::string_view name) {
      return invalidArgument("the " + std::string(what) + " of '" + std::string(name) +
                             "' has no function");
    };
    for (const reference::Entry *row : rows_.references_)
      if (!row->evaluate)
        return missing("reference", row->name);
    for (const rewrite::Rewrite *row : rows_.rewrites_)
      if (!row->run)
        return missing("rewrite", row->name);
    for (const graph::NamedGradientRule *row : rows_.gradients_)
      if (row->rule.isNone())
        return missing("gradient", row->name);
    return {};
  }

  /// Rows are of operators that there are, and the plug-in's own operators have a reference each:
  /// what no kernel takes is done by it, and kernels are held against it.
  Status checkOperators() const {
    mlir::DialectRegistry registry;
    graph::registerDialects(registry);
    for (const graph::OperatorDialect *dialect : rows_.dialects_)
      dialect->insert(registry);
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    context.loadAllAvailableDialects();
    auto isThere = [&](std::string_view name) {
      std::string full =
          llvm::StringRef(name).contains('.') ? std::string(name) : "graph." + std::string(name);
      return mlir::OperationName(full, &context).isRegistered();
    };
    auto check = [&](const auto &rows, const char *what, auto operatorOf) -> Status {
      for (const auto *row : rows)
        if (std::string name(operatorOf(*row)); !isThere(name))
          return invalidArgument("the " + std::string(what) + " '" + std::string(row->name) +
                                 "' is of an operator that there isn't, '" + name + "'");
      return {};
    };
    auto named = [](const auto &row) { return row.name; };
    for (Status status :
         {check(rows_.references_, "reference", named), check(rows_.gradients_, "gradient", named),
          check(rows_.names_, "name", [](const graph::ModelName &row) { return row.graph; })})
      if (!status.ok())
        return status;
    for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
      std::string_view full(name.getStringRef().data(), name.getStringRef().size());
      bool isOwn = llvm::any_of(rows_.dialects_, [&](const graph::OperatorDialect *dialect) {
        return full.substr(0, full.find('.')) == dialect->name;
      });
      bool hasReference = llvm::any_of(
          rows_.references_, [&](const reference::Entry *row) { return full == row->name; });
      if (isOwn && name.hasInterface<graph::ShapeFunction>() && !hasReference)
        return invalidArgument("the operator '" + std::string(full) +
                               "' has no reference; see docs/plugins.md");
    }
    return {};
  }

  /// Each behind a rewrite that there is.
  Status checkPlaces() const {
    for (size_t i = 0; i < rows_.rewrites_.size(); ++i) {
      const rewrite::Rewrite &row = *rows_.rewrites_[i];
      auto earlier = std::span(rows_.rewrites_).first(i);
      bool isThere = rewrite::rewrites().find(row.after) ||
                     llvm::any_of(earlier, [&](auto *other) { return other->name == row.after; });
      if (!isThere)
        return invalidArgument("the rewrite '" + std::string(row.name) + "' is to run after '" +
                               std::string(row.after) + "', which there isn't");
    }
    return {};
  }

  const Registry &rows_;
};

namespace {

#ifdef TENSMITH_LLVM_INSIDE
constexpr bool kTakesPlugins = false;
#else
constexpr bool kTakesPlugins = true;
#endif
constexpr char kAbi[] = "tensmithPluginAbi", kRegister[] = "tensmithRegister";

/// What the file says that it was built for; nothing of it has run.
Result<std::string> stampOf(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return Status(StatusCode::IoError, "can't be read: " + buffer.getError().message());
  auto file = llvm::object::ELFObjectFile<llvm::object::ELF64LE>::create(**buffer);
  if (!file) {
    llvm::consumeError(file.takeError());
    return invalidArgument("is no shared library");
  }
  for (llvm::object::ELFSymbolRef symbol : file->getDynamicSymbolIterators()) {
    auto name = symbol.getName();
    auto section = symbol.getSection();
    auto address = symbol.getAddress();
    if (!name || !section || !address) {
      llvm::consumeError(name.takeError());
      llvm::consumeError(section.takeError());
      llvm::consumeError(address.takeError());
      continue;
    }
    if (*name != kAbi || *section == file->section_end())
      continue;
    auto contents = (*section)->getContents();
    uint64_t offset = *address - (*section)->getAddress();
    if (contents && offset < contents->size())
      return contents->substr(offset, symbol.getSize()).rtrim('\0').str();
    llvm::consumeError(contents.takeError());
  }
  return invalidArgument("is no plug-in of Tensmith: it has no " + std::string(kAbi) +
                         ", which TENSMITH_PLUGIN defines; see docs/plugins.md");
}

/// Makes the names of the library that this is in visible to what is opened from now on.
void showOwnNames() {
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void *>(&loadPlugin), &own) && own.dli_fname)
    ::dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

std::optional<Hash128> hashOf(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return std::nullopt;
  auto hash = cache::hashFile(file);
  ::close(file);
  return hash;
}

/// What the system says of a library, with the name that is missing as it is written.
std::string readable(llvm::StringRef said) {
  constexpr llvm::StringLiteral kUndefined = "undefined symbol: ";
  auto [before, symbol] = said.split(kUndefined);
  if (symbol.empty())
    return said.str();
  return (before + kUndefined).str() + llvm::demangle(symbol.str()) +
         ", which is declared and defined nowhere (by an operator's record, perhaps)";
}

Status openAndRegister(const std::string &path, const GiveReferences &giveReferences) {
  auto stamp = stampOf(path);
  if (!stamp.ok())
    return stamp.status();
  if (!kTakesPlugins)
    return unsupported("can't be loaded: this Tensmith has LLVM inside, and plug-ins need LLVM's "
                       "shared libraries; build Tensmith from its sources (docs/plugins.md)");
  if (*stamp != TENSMITH_PLUGIN_ABI)
    return invalidArgument("was built for " + *stamp + ", and this is " + TENSMITH_PLUGIN_ABI +
                           "; build it again with this one's package");
  showOwnNames();
  void *handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle)
    return invalidArgument("can't be loaded: " + readable(::dlerror()));
  auto *registerAll = reinterpret_cast<void (*)(Registry &)>(::dlsym(handle, kRegister));
  if (!registerAll)
    return invalidArgument("has no " + std::string(kRegister) +
                           ", which TENSMITH_PLUGIN defines; see docs/plugins.md");
  Registry registry;
  try {
    registerAll(registry);
  } catch (const std::exception &error) {
    return invalidArgument("its registration threw: " + std::string(error.what()));
  } catch (...) {
    return invalidArgument("its registration threw what is no exception");
  }
  return Installation(registry).run(giveReferences);
}

} // namespace

Status loadPlugin(const std::string &path, const GiveReferences &giveReferences) {
  static std::mutex loading;
  struct Seen {
    Hash128 hash;
    bool isLoaded = false;
  };
  static std::map<std::string, Seen> seen; // the system opens a library of a path once
  std::lock_guard lock(loading);
  std::unique_ptr<char, decltype(&std::free)> whole(::realpath(path.c_str(), nullptr), std::free);
  auto hash = whole ? hashOf(whole.get()) : std::nullopt;
  if (!hash)
    return {StatusCode::IoError, path +
                                     ": there is no such file, or it can't be read; a plug-in is "
                                     "named by its path"};
  Seen &file = seen.try_emplace(whole.get(), Seen{*hash}).first->second;
  if (file.hash != *hash)
    return invalidArgument(path + ": has changed since it was loaded; a process keeps the "
                                  "plug-ins that it has, so begin another");
  if (file.isLoaded)
    return {};
  cache::notePlugin(*hash); // before anything is compiled by it
  if (Status status = openAndRegister(whole.get(), giveReferences); !status.ok())
    return status.within(path);
  file.isLoaded = true;
  return {};
}

} // namespace tensmith::extend
