// Checks a plug-in's file, opens it, and adds its rows to the tables; see Plugin.h.
//
// A plug-in refers to names of the compiler that it isn't linked with: whichever program has the
// compiler shows them, be it libtensmith_compiler or tensmith-opt. A library that was opened with
// names of its own (dlopen's RTLD_LOCAL) makes them visible first.
#include "compiler/extend/Plugin.h"

#include "cache/LoadedPlugins.h"
#include "cache/Store.h"
#include "compiler/extend/Registry.h"

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
    for (const Registry::PlacedTemplate &placed : rows_.templates_)
      if (!placed.before.empty() && !targets::vectorTemplates().find(placed.before))
        return invalidArgument("there is no template '" + std::string(placed.before) +
                               "' to stand before");
    return checkPlaces();
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
    return invalidArgument("can't be loaded: " + std::string(::dlerror()));
  auto *registerAll = reinterpret_cast<void (*)(Registry &)>(::dlsym(handle, kRegister));
  if (!registerAll)
    return invalidArgument("has no " + std::string(kRegister) +
                           ", which TENSMITH_PLUGIN defines; see docs/plugins.md");
  Registry registry;
  registerAll(registry);
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
