// From files alone; see Identity.h.
#include "client/Identity.h"

#include "base/Cpus.h"
#include "base/Hash.h"
#include "cache/Store.h"

#include <tensmith/tensmith.h>

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <link.h>
#include <memory>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;

namespace tensmith::client {
namespace {

struct File {
  int descriptor;
  ~File() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  bool read(uint64_t offset, void *to, size_t bytes) const {
    return ::pread(descriptor, to, bytes, off_t(offset)) == ssize_t(bytes);
  }
};

/// The folders in which the loader looks for what this code loads, in its order.
std::vector<std::string> loaderFolders() {
  Dl_info own{};
  void *handle = nullptr;
  if (::dladdr(reinterpret_cast<const void *>(&compilerIdentity), &own) && own.dli_fname)
    handle = ::dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) // the program itself, by whichever name it was called
    handle = ::dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size{};
  std::vector<std::string> folders;
  if (handle && ::dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) == 0) {
    std::unique_ptr<char[]> memory(new char[size.dls_size]);
    auto *found = reinterpret_cast<Dl_serinfo *>(memory.get());
    found->dls_size = size.dls_size, found->dls_cnt = size.dls_cnt;
    if (::dlinfo(handle, RTLD_DI_SERINFO, found) == 0)
      for (unsigned i = 0; i < found->dls_cnt; ++i)
        folders.push_back(found->dls_serpath[i].dls_name);
  }
  if (handle)
    ::dlclose(handle);
  return folders;
}

/// The note in which a linker has written what the file was linked of; empty where there is none.
std::string buildId(const File &file) {
  Elf64_Ehdr header;
  if (!file.read(0, &header, sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_phentsize != sizeof(Elf64_Phdr))
    return {};
  constexpr uint64_t kMostNotes = 4096;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!file.read(header.e_phoff + i * sizeof segment, &segment, sizeof segment))
      return {};
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMostNotes)
      continue;
    std::string notes(segment.p_filesz, '\0');
    if (!file.read(segment.p_offset, notes.data(), notes.size()))
      return {};
    for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
      Elf64_Nhdr note;
      std::memcpy(&note, notes.data() + at, sizeof note);
      size_t name = at + sizeof note, body = name + ((size_t(note.n_namesz) + 3) & ~size_t(3));
      if (body + note.n_descsz > notes.size())
        break;
      if (note.n_type == NT_GNU_BUILD_ID && notes.compare(name, 4, std::string("GNU\0", 4)) == 0)
        return notes.substr(body, note.n_descsz);
      at = body + ((size_t(note.n_descsz) + 3) & ~size_t(3));
    }
  }
  return {};
}

std::string identityOf(const std::string &library) {
  File file{::open(library.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat status;
  if (file.descriptor < 0 || ::fstat(file.descriptor, &status) != 0)
    return {};
  std::string id = buildId(file);
  return id.empty() ? std::to_string(status.st_size) + "." + std::to_string(status.st_mtim.tv_sec) +
                          "." + std::to_string(status.st_mtim.tv_nsec)
                    : id;
}

/// The lines that say what the first processor is, and not how fast it happens to run.
std::string processor() {
  static constexpr const char *kTelling[] = {"vendor_id",  "cpu family", "model", "stepping",
                                             "cache size", "flags",      "CPU ",  "Features"};
  std::ifstream file("/proc/cpuinfo");
  std::string telling;
  for (std::string line; std::getline(file, line) && !line.empty();)
    for (const char *begin : kTelling)
      if (line.starts_with(begin))
        telling += line + '\n';
  return telling;
}

std::string contents(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// What the compiler knows of caches, from where it knows it.
void addCaches(Hasher &hasher) {
  for (int index = 0; index < 8; ++index) {
    std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    for (const char *name : {"level", "size", "type", "shared_cpu_list"})
      hasher.add(contents(folder + name));
  }
  for (int name : {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE})
    hasher.add(int64_t(::sysconf(name)));
}

/// The limits of whichever machine, all of them: whose this is only the compiler knows.
void addLimits(Hasher &hasher) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::directory_iterator listing(cache::machinesFolder(), error);
  for (; !error && listing != fs::directory_iterator(); listing.increment(error))
    files.push_back(listing->path());
  std::sort(files.begin(), files.end());
  for (const fs::path &file : files) {
    hasher.add(file.filename().string());
    hasher.add(contents(file.string()));
  }
}

} // namespace

std::string compilerIdentity() {
  for (const std::string &folder : loaderFolders())
    if (std::string id = identityOf(folder + "/" + TENSMITH_COMPILER_LIBRARY); !id.empty())
      return std::string(ts_version()) + " " + id;
  return {};
}

/// What stays the same as long as the process lives.
static Hash128 hardware() {
  std::string known = processor();
  Hasher hasher;
  hasher.add(known);
  hasher.add(int64_t(known.find(" amx_tile") != known.npos && mayUseTiles()));
  hasher.add(int64_t(::sysconf(_SC_NPROCESSORS_ONLN)));
  addCaches(hasher);
  return hasher.finish();
}

std::string machineIdentity() {
  static const Hash128 known = hardware();
  Hasher hasher;
  hasher.add(toHex(known));
  hasher.add(int64_t(availableCpus()));
  addLimits(hasher);
  return toHex(hasher.finish());
}

} // namespace tensmith::client
