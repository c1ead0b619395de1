// Modules that are damaged, of another version or machine, or whose plan lies: each is refused with
// a message, and none is executed.
#include "TestModule.h"

#include "runtime/CpuFeatures.h"
#include "runtime/Session.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <unistd.h>

using namespace tensmith;
using namespace tensmith::runtime;
using namespace tensmith::runtime::test;

namespace {

Status loadStatus(const Bytes &file, bool verifyWeights = false) {
  auto module = Module::loadBytes(file, {verifyWeights});
  return module ? Status() : module.status();
}

void expectRefused(const Bytes &file, const std::string &part) {
  Status status = loadStatus(file);
  EXPECT_EQ(status.code(), StatusCode::InvalidModule);
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

Bytes goodModule() {
  static const std::vector<float> weights(64, 2.0f);
  return addModule(64, weights);
}

template <typename Change> Bytes withHeader(Change change) {
  Bytes file = goodModule();
  auto sections = findSections(file);
  ModuleHeader header = readHeader(file, *sections);
  change(header);
  std::memcpy(file.data() + sections->header.offset, &header, sizeof(header));
  reseal(file);
  return file;
}

TEST(BadModule, EmptyAndForeignFiles) {
  expectRefused({}, "the file is empty");
  expectRefused(Bytes(3), "too short");
  expectRefused(Bytes(4096), "no ELF file");
  auto missing = Module::load("/nowhere/module.so", {});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::IoError);
  EXPECT_NE(missing.status().message().find("/nowhere/module.so"), std::string::npos);
  EXPECT_FALSE(Module::load("/", {}).ok());
  EXPECT_FALSE(Module::load("/dev/zero", {}).ok());
}

TEST(BadModule, TruncatedAtAnyLength) {
  Bytes file = goodModule();
  for (size_t size = 1; size < file.size(); size += 1 + size / 400)
    EXPECT_FALSE(loadStatus(Bytes(file.begin(), file.begin() + long(size))).ok()) << size;
  Bytes longer = file;
  longer.push_back(std::byte(0));
  EXPECT_FALSE(loadStatus(longer).ok()) << "bytes after the end are part of the image";
}

// Every byte of the header, the plan and the tables, and a sample of the rest; but for the
// weights'.
TEST(BadModule, AnyFlippedByteIsCaughtAtEveryLoad) {
  Bytes file = goodModule();
  auto sections = findSections(file);
  auto inside = [](size_t at, const FileRange &range) {
    return at >= range.offset && at < range.end();
  };
  size_t flipped = 0;
  for (size_t at = 0; at < file.size(); ++at) {
    bool all = at < sizeof(Elf64_Ehdr) || inside(at, sections->header) ||
               inside(at, sections->plan) || at >= sections->weights.end();
    if (inside(at, sections->weights) || (!all && at % 29))
      continue;
    // The weights' hash is looked at only when the weights are.
    bool weightsHash = at >= sections->header.offset + 32 && at < sections->header.end();
    Bytes bad = file;
    bad[at] ^= std::byte(1 << (at % 8));
    EXPECT_FALSE(loadStatus(bad, weightsHash).ok()) << "byte " << at;
    ++flipped;
  }
  EXPECT_GT(flipped, 1000u);
}

TEST(BadModule, AFlippedWeightIsCaughtWhenAsked) {
  Bytes file = goodModule();
  EXPECT_TRUE(loadStatus(file, true).ok());
  auto sections = findSections(file);
  file[sections->weights.offset + 5] ^= std::byte(16);
  EXPECT_TRUE(loadStatus(file, false).ok());
  Status status = loadStatus(file, true);
  EXPECT_EQ(status.code(), StatusCode::InvalidModule);
  EXPECT_NE(status.message().find("weights are damaged"), std::string::npos);
}

TEST(BadModule, OfAnotherVersionAbiOrMachine) {
  expectRefused(withHeader([](ModuleHeader &header) { header.formatMajor += 1; }),
                "format 2.9, and this runtime reads 1.9");
  expectRefused(withHeader([](ModuleHeader &header) { header.formatMinor += 1; }),
                "update the runtime");
  expectRefused(withHeader([](ModuleHeader &header) { header.kernelAbi += 1; }), "ABI");
  expectRefused(withHeader([](ModuleHeader &header) { header.magic = 1; }), "header");
  Bytes file = goodModule();
  auto header = reinterpret_cast<Elf64_Ehdr *>(file.data());
  header->e_machine = header->e_machine == EM_X86_64 ? EM_AARCH64 : EM_X86_64;
  reseal(file);
  bool onIntel = header->e_machine != EM_X86_64;
  expectRefused(file, onIntel ? "another machine (AArch64, this is x86-64)"
                              : "another machine (x86-64, this is");
  header->e_machine = EM_RISCV;
  reseal(file);
  expectRefused(file, "another machine (RISC-V, this is");
  header->e_machine = EM_S390;
  expectRefused(file, "none of x86-64, AArch64, 32-bit Arm and RISC-V");
}

// Breaks if a module could have code run, or a library loaded, before any of its kernels is called.
TEST(BadModule, ThatReachesOutWhenItIsLoaded) {
  auto withTag = [](Elf64_Sxword tag, Elf64_Xword value) {
    Bytes file = goodModule();
    const auto *header = reinterpret_cast<const Elf64_Ehdr *>(file.data());
    const auto *segments = reinterpret_cast<const Elf64_Phdr *>(file.data() + header->e_phoff);
    for (int i = 0; i < header->e_phnum; ++i)
      if (segments[i].p_type == PT_DYNAMIC) {
        auto *entries = reinterpret_cast<Elf64_Dyn *>(file.data() + segments[i].p_offset);
        for (; entries->d_tag != DT_NULL; ++entries)
          if (entries->d_tag == DT_SYMENT) // which the loader doesn't look at
            *entries = {tag, {value}};
      }
    reseal(file);
    return file;
  };
  EXPECT_EQ(loadStatus(withTag(DT_SYMENT, sizeof(Elf64_Sym))).message(), "");
  for (Elf64_Sxword tag : {DT_NEEDED, DT_INIT, DT_FINI, DT_INIT_ARRAY, DT_FINI_ARRAY,
                           DT_PREINIT_ARRAY, DT_AUXILIARY, DT_FILTER})
    expectRefused(withTag(tag, 1), "run code or load other libraries");
}

// Breaks if a library is opened by a name that leads to another folder, be it to call its kernel or
// to tell it that the module is gone.
TEST(BadModule, ThatNamesALibraryOfAnotherFolder) {
  namespace fs = std::filesystem;
  std::string name = "hostile" + std::to_string(getpid());
  fs::path folder = fs::read_symlink("/proc/self/exe").parent_path() / ("libtensmith_" + name);
  fs::path planted = folder / "planted.so";
  fs::remove_all(folder);
  fs::create_directory(folder);
  fs::copy_file(TEST_KERNELS, planted);
  ModuleBuilder module;
  uint32_t kernel = module.kernel(name + "/planted:test_add");
  FunctionBuilder main("main");
  uint32_t x = main.param("x", DataType::F32, {main.constant(1)});
  uint32_t y = main.value("y", DataType::F32, {main.constant(1)}, plan::Storage::Result);
  main.function.arena_bytes = main.constant(0);
  main.add(plan::Opcode::Kernel, kernel, {x, x}, {y}, {main.constant(1)});
  main.function.results = {y};
  module.add(std::move(main));
  expectRefused(module.finish(), "which can't be loaded");
  EXPECT_EQ(dlopen(planted.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
  EXPECT_NE(dlopen(planted.c_str(), RTLD_NOW), nullptr) << "it could not have been opened";
  fs::remove_all(folder);
}

/// The good module with one segment of that type and those rights changed.
template <typename Change> Bytes withSegment(uint32_t type, uint32_t rights, Change change) {
  Bytes file = goodModule();
  const auto *header = reinterpret_cast<const Elf64_Ehdr *>(file.data());
  auto *segments = reinterpret_cast<Elf64_Phdr *>(file.data() + header->e_phoff);
  auto *found = std::find_if(segments, segments + header->e_phnum, [&](const Elf64_Phdr &segment) {
    return segment.p_type == type && segment.p_flags == rights;
  });
  EXPECT_NE(found, segments + header->e_phnum);
  change(*found);
  reseal(file);
  return file;
}

TEST(BadModule, WithoutADynamicSegmentInTheFile) {
  auto withDynamic = [](auto change) { return withSegment(PT_DYNAMIC, PF_R | PF_W, change); };
  expectRefused(withDynamic([](Elf64_Phdr &segment) { segment.p_type = PT_NULL; }),
                "no dynamic segment");
  expectRefused(withDynamic([](Elf64_Phdr &segment) { segment.p_offset = ~uint64_t(7); }),
                "not in the file");
  expectRefused(withDynamic([](Elf64_Phdr &segment) { segment.p_filesz = ~uint64_t(0); }),
                "not in the file");
  expectRefused(withDynamic([](Elf64_Phdr &segment) { segment.p_filesz = 16; }), "no end");
}

// Breaks if a segment is mapped from outside of the file, over another one or somewhere else, or so
// that code can be written.
TEST(BadModule, SegmentsThatCanNotBeMapped) {
  auto withCode = [](auto change) { return withSegment(PT_LOAD, PF_R | PF_X, change); };
  EXPECT_EQ(loadStatus(withCode([](Elf64_Phdr &) {})).message(), "");
  expectRefused(withCode([](Elf64_Phdr &code) { code.p_offset += uint64_t(1) << 40; }),
                "past the end of the file");
  expectRefused(withCode([](Elf64_Phdr &code) { code.p_filesz = code.p_memsz = 1 << 30; }),
                "past the end of the file");
  expectRefused(withCode([](Elf64_Phdr &code) { code.p_vaddr = ~uint64_t(0xfff); }),
                "no valid address");
  expectRefused(withCode([](Elf64_Phdr &code) { code.p_memsz = code.p_filesz - 1; }),
                "no valid address");
  expectRefused(withCode([](Elf64_Phdr &code) { code.p_vaddr %= 4096; }), "share a page");
  expectRefused(withCode([](Elf64_Phdr &code) { code.p_vaddr += uint64_t(1) << 41; }), "1 GiB");
  expectRefused(withCode([](Elf64_Phdr &code) { code.p_offset += 16; }),
                "laid out for other pages");
  expectRefused(withCode([](Elf64_Phdr &code) { code.p_flags |= PF_W; }),
                "writable and executable");
  expectRefused(withCode([](Elf64_Phdr &code) { code.p_memsz += 64; }), "has no contents");
  expectRefused(withCode([](Elf64_Phdr &code) { code.p_type = PT_TLS; }), "thread's own");
}

// Breaks if a small file can make loading look for many names among many segments.
TEST(BadModule, SymbolsAndSegmentsWithoutEnd) {
  Bytes file = goodModule();
  const auto *header = reinterpret_cast<const Elf64_Ehdr *>(file.data());
  auto *sections = reinterpret_cast<Elf64_Shdr *>(file.data() + header->e_shoff);
  auto *table = std::find_if(sections, sections + header->e_shnum, [](const Elf64_Shdr &section) {
    return section.sh_type == SHT_DYNSYM;
  });
  ASSERT_NE(table, sections + header->e_shnum);
  sections[0] = *table;
  reseal(file);
  expectRefused(file, "two tables of symbols");

  file = goodModule();
  auto first = *reinterpret_cast<const Elf64_Ehdr *>(file.data());
  std::vector<Elf64_Phdr> segments(first.e_phnum);
  std::memcpy(segments.data(), file.data() + first.e_phoff, segments.size() * sizeof(Elf64_Phdr));
  Elf64_Phdr load = *std::ranges::find(segments, PT_LOAD, &Elf64_Phdr::p_type);
  for (int more = 0; more < 20; ++more) {
    load.p_vaddr += 1 << 20;
    segments.push_back(load);
  }
  first.e_phoff = file.size();
  first.e_phnum = uint16_t(segments.size());
  std::memcpy(file.data(), &first, sizeof(first));
  const auto *bytes = reinterpret_cast<const std::byte *>(segments.data());
  file.insert(file.end(), bytes, bytes + segments.size() * sizeof(Elf64_Phdr));
  reseal(file);
  expectRefused(file, "no compiled model has more than a few");
}

/// The good module with its table of relocations changed: where it lies, then each entry of it.
template <typename Change> Bytes withRelocation(Change change) {
  Bytes file = goodModule();
  const auto *header = reinterpret_cast<const Elf64_Ehdr *>(file.data());
  const auto *sections = reinterpret_cast<const Elf64_Shdr *>(file.data() + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i)
    if (sections[i].sh_type == SHT_RELA)
      change(*reinterpret_cast<Elf64_Rela *>(file.data() + sections[i].sh_offset));
  reseal(file);
  return file;
}

// Breaks if loading writes where it must not: outside of the image, or into its code.
TEST(BadModule, RelocationsOfOtherKindsAndPlaces) {
  EXPECT_EQ(loadStatus(withRelocation([](Elf64_Rela &) {})).message(), "");
  for (uint64_t address : {uint64_t(0), uint64_t(0x1800), uint64_t(1) << 40, ~uint64_t(3)})
    expectRefused(withRelocation([&](Elf64_Rela &entry) { entry.r_offset = address; }),
                  "outside of what can be written");
  expectRefused(withRelocation([](Elf64_Rela &entry) { entry.r_info = ELF64_R_INFO(1, 6); }),
                "relocation of type 6");
}

TEST(BadModule, ForFeaturesThatTheCpuLacks) {
  auto withFeature = [](const char *name) {
    ModuleBuilder module;
    FunctionBuilder main("main");
    module.module.features = {name};
    module.add(std::move(main));
    return module.finish();
  };
  auto present = cpuFeatures();
  ASSERT_FALSE(present.empty());
  EXPECT_TRUE(loadStatus(withFeature(present[0].c_str())).ok());
  expectRefused(withFeature("avx1024"), "does not know: avx1024");
  for (const char *name : {"fma4", "xop", "amx-fp16", "avx512fp16", "sve2"})
    if (cpuFeature(name) == FeatureState::Absent)
      return expectRefused(withFeature(name), std::string("lacks: ") + name);
  GTEST_SKIP() << "this CPU has every feature that could be missing";
}

/// A plan with one thing changed, over the right hashes.
struct Lie {
  const char *name;
  std::function<void(plan::ModuleT &)> tell;
  const char *message;
};

Bytes lyingModule(const Lie &lie) {
  ModuleBuilder module;
  uint32_t add = module.kernel("test_add");
  module.routine("softmax");
  FunctionBuilder main("main"), branch("branch");
  uint32_t n = main.symbol("n"), k = main.constant(16);
  uint32_t late = main.symbol("late");
  main.function.arena_bytes = main.constant(64);
  uint32_t zero = main.constant(0);
  uint32_t x = main.param("x", DataType::F32, {n});
  uint32_t c = main.value("c", DataType::F32, {k}, plan::Storage::Constant);
  uint32_t t = main.value("t", DataType::F32, {k}, plan::Storage::Arena, zero);
  uint32_t h = main.value("h", DataType::F32, {n}, plan::Storage::Heap);
  uint32_t y = main.value("y", DataType::F32, {n}, plan::Storage::Result);
  main.add(plan::Opcode::Kernel, add, {c, c}, {t}, {k});
  main.add(plan::Opcode::Kernel, add, {x, x}, {h}, {n});
  main.add(plan::Opcode::Kernel, add, {h, x}, {y}, {n}).releases = {h};
  main.function.results = {y};
  (void)late;
  module.add(std::move(main));
  module.add(std::move(branch));
  if (lie.tell)
    lie.tell(module.module);
  std::vector<float> weights(16, 1.0f);
  return module.finish(weights);
}

TEST(BadModule, APlanThatLiesIsRefused) {
  auto main = [](plan::ModuleT &module) -> plan::FunctionT & { return *module.functions[0]; };
  auto instruction = [&](plan::ModuleT &m, size_t i) -> plan::InstructionT & {
    return *main(m).instructions[i];
  };
  auto addCheck = [&](plan::ModuleT &m, uint32_t relation, std::vector<uint32_t> sizes,
                      uint32_t message) {
    auto check = std::make_unique<plan::InstructionT>();
    check->opcode = plan::Opcode::Check;
    check->target = relation;
    check->sizes = std::move(sizes);
    check->message = message;
    check->location = kAbsent;
    m.messages = {"{a} and {b}"};
    main(m).instructions.insert(main(m).instructions.begin(), std::move(check));
  };
  EXPECT_TRUE(loadStatus(lyingModule({"", nullptr, ""})).ok());
  const Lie lies[] = {
      {"operand out of range", [&](auto &m) { instruction(m, 0).operands[0] = 99; }, "operand 0"},
      {"absent operand of a view",
       [&](auto &m) {
         instruction(m, 1).opcode = plan::Opcode::View;
         instruction(m, 1).operands = {kAbsent};
       },
       "operand 0"},
      {"use before definition", [&](auto &m) { instruction(m, 0).operands[0] = 3; }, "operand 0"},
      {"use after release", [&](auto &m) { main(m).results = {3}; }, "result 0"},
      {"defined twice", [&](auto &m) { instruction(m, 1).results = {2}; }, "defined twice"},
      {"result out of range", [&](auto &m) { instruction(m, 1).results = {77}; }, "no value"},
      {"written parameter", [&](auto &m) { instruction(m, 1).results = {0}; }, "can't be written"},
      {"written constant", [&](auto &m) { instruction(m, 1).results = {1}; }, "can't be written"},
      {"kernel out of range", [&](auto &m) { instruction(m, 0).target = 5; }, "no such kernel"},
      {"routine out of range",
       [&](auto &m) {
         instruction(m, 0).opcode = plan::Opcode::Routine;
         instruction(m, 0).target = 5;
       },
       "no such routine"},
      {"unknown opcode", [&](auto &m) { instruction(m, 0).opcode = plan::Opcode(9); }, "opcode"},
      {"size out of range", [&](auto &m) { instruction(m, 0).sizes[0] = 99; }, "size 0"},
      {"size never known", [&](auto &m) { instruction(m, 0).sizes[0] = 2; }, "size 0"},
      {"dimension out of range", [&](auto &m) { main(m).values[3]->dims[0] = 99; }, "dimension 0"},
      {"dimension never known", [&](auto &m) { main(m).values[3]->dims[0] = 2; }, "not known"},
      {"forward expression",
       [&](auto &m) { main(m).exprs[1] = plan::Expr(4, 0, plan::ExprKind::Add); }, "expression 1"},
      {"negative expression",
       [&](auto &m) { main(m).exprs[1] = plan::Expr(-1, 0, plan::ExprKind::Add); }, "expression 1"},
      {"symbol out of range",
       [&](auto &m) { main(m).exprs[0] = plan::Expr(7, 0, plan::ExprKind::Symbol); },
       "expression 0"},
      {"constant outside", [&](auto &m) { main(m).values[1]->offset = 64; }, "outside the weights"},
      {"constant far outside", [&](auto &m) { main(m).values[1]->offset = ~uint64_t(63); },
       "outside the weights"},
      {"constant of a symbolic size", [&](auto &m) { main(m).values[1]->dims[0] = 0; },
       "symbolic dimension"},
      {"constant of negative size",
       [&](auto &m) { main(m).exprs[1] = plan::Expr(-16, 0, plan::ExprKind::Constant); },
       "outside the weights"},
      {"strings in the arena",
       [&](auto &m) { main(m).values[2]->type = uint8_t(DataType::String); }, "can't hold"},
      {"unknown type", [&](auto &m) { main(m).values[2]->type = 99; }, "unknown"},
      {"arena of late size", [&](auto &m) { main(m).arena_bytes = 2; }, "not known"},
      {"places that are no symbols",
       [&](auto &m) {
         main(m).buffers = {plan::ArenaBuffer(1, 0, 1)};
         main(m).first_place = 7;
       },
       "no symbols of its own"},
      {"buffer of no size",
       [&](auto &m) {
         main(m).symbols.insert(main(m).symbols.end(), {"place", "arena"});
         main(m).first_place = uint32_t(main(m).symbols.size()) - 2;
         main(m).buffers = {plan::ArenaBuffer(99, 0, 1)};
       },
       "buffer 0 has no size"},
      {"buffer as large as its place",
       [&](auto &m) {
         main(m).symbols.insert(main(m).symbols.end(), {"place", "arena"});
         main(m).first_place = uint32_t(main(m).symbols.size()) - 2;
         main(m).exprs.emplace_back(main(m).first_place, 0, plan::ExprKind::Symbol);
         main(m).buffers = {plan::ArenaBuffer(uint32_t(main(m).exprs.size()) - 1, 0, 1)};
       },
       "buffer 0 has no size"},
      {"size that is a place",
       [&](auto &m) {
         main(m).symbols.insert(main(m).symbols.end(), {"place", "arena"});
         main(m).first_place = uint32_t(main(m).symbols.size()) - 2;
         main(m).buffers = {plan::ArenaBuffer(1, 0, 1)};
         main(m).exprs.emplace_back(main(m).first_place + 1, 0, plan::ExprKind::Symbol);
         main(m).values[3]->dims[0] = uint32_t(main(m).exprs.size()) - 1;
       },
       "has a place as a size"},
      {"arena offset out of range", [&](auto &m) { main(m).values[2]->offset = 1 << 20; },
       "not known"},
      {"parameter out of range", [&](auto &m) { main(m).params = {55}; }, "parameter 0"},
      {"parameter twice", [&](auto &m) { main(m).params = {0, 0}; }, "parameter 1"},
      {"release of no heap value", [&](auto &m) { instruction(m, 2).releases = {0}; }, "releases"},
      {"location out of range", [&](auto &m) { instruction(m, 2).location = 3; }, "location"},
      {"given symbols of main", [&](auto &m) { main(m).given_symbols = 1; }, "given symbols"},
      {"more given symbols than symbols", [&](auto &m) { main(m).given_symbols = 9; }, "symbols"},
      {"call without functions", [&](auto &m) { instruction(m, 0).opcode = plan::Opcode::If; },
       "lacks"},
      {"call of another signature",
       [&](auto &m) {
         instruction(m, 0).opcode = plan::Opcode::If;
         instruction(m, 0).functions = {1, 1};
       },
       "another number"},
      {"call of no function",
       [&](auto &m) {
         instruction(m, 0).opcode = plan::Opcode::If;
         instruction(m, 0).functions = {1, 8};
       },
       ""},
      {"loop that carries too much",
       [&](auto &m) {
         instruction(m, 0).opcode = plan::Opcode::Loop;
         instruction(m, 0).functions = {1};
         instruction(m, 0).carried = 0xffffffff;
       },
       "carries"},
      {"kernel that is not there", [&](auto &m) { m.kernels[0]->symbol = "gone"; }, "'gone'"},
      {"unknown operator", [&](auto &m) { m.routines[0]->operator_ = "sorcery"; }, "'sorcery'"},
      {"work that is no expression", [&](auto &m) { instruction(m, 0).flops = 1000; }, "work"},
      {"constant that is a view of what is none",
       [&](auto &m) {
         instruction(m, 1).opcode = plan::Opcode::View;
         instruction(m, 1).operands = {0};
         instruction(m, 1).results = {1};
         instruction(m, 2).operands = {0, 0};
         instruction(m, 2).releases = {};
       },
       "a constant of what is none"},
      {"join outside of the arena",
       [&](auto &m) {
         instruction(m, 1).opcode = plan::Opcode::Join;
         instruction(m, 1).operands = {0};
       },
       "no parts of one value"},
      {"parts that a kernel reads",
       [&](auto &m) {
         main(m).values[2]->pitch = 128;
         instruction(m, 1).operands[0] = 2;
       },
       "has rows that lie apart"},
      {"a join of another type",
       [&](auto &m) {
         instruction(m, 1).opcode = plan::Opcode::Join;
         instruction(m, 1).operands = {2};
         main(m).values[3]->storage = plan::Storage::Arena;
         main(m).values[3]->dims = {1};
         main(m).values[3]->offset = main(m).values[2]->offset;
         main(m).values[3]->type = uint8_t(DataType::I32);
       },
       "no parts of one value"},
      {"a check of one size", [&](auto &m) { addCheck(m, 0, {0}, 0); }, "has two sizes"},
      {"a check of a relation that there isn't", [&](auto &m) { addCheck(m, 9, {0, 0}, 0); },
       "relation is unknown"},
      {"a check that says nothing", [&](auto &m) { addCheck(m, 0, {0, 0}, 1); }, "no message"},
      {"a check of a size that nobody knows", [&](auto &m) { addCheck(m, 0, {0, 77777}, 0); },
       "is not known there"},
      {"a join of nothing",
       [&](auto &m) {
         instruction(m, 1).opcode = plan::Opcode::Join;
         instruction(m, 1).operands = {};
       },
       "has operands"},
      {"parts that a routine gives",
       [&](auto &m) {
         instruction(m, 0).opcode = plan::Opcode::Routine;
         instruction(m, 0).target = 0;
         main(m).values[2]->pitch = 128;
       },
       "is no kernel's"},
      {"parts that are handed out",
       [&](auto &m) {
         main(m).values[2]->pitch = 128;
         main(m).results = {2};
       },
       "has rows that lie apart"},
      {"a view of rows that lie closer",
       [&](auto &m) {
         instruction(m, 1).opcode = plan::Opcode::View;
         instruction(m, 1).operands = {2};
         main(m).values[3]->storage = plan::Storage::Arena;
         main(m).values[3]->dims = {1};
         main(m).values[3]->offset = main(m).values[2]->offset;
         main(m).values[3]->pitch = 128;
       },
       "by more or less than its operand's"},
      {"parts of the caller's", [&](auto &m) { main(m).values[0]->pitch = 128; },
       "which only rows of known size"},
  };
  for (const Lie &lie : lies) {
    SCOPED_TRACE(lie.name);
    expectRefused(lyingModule(lie), lie.message);
  }
}

/// A module whose instructions' operands, and routines' attributes, are one list each.
Bytes sharingModule(uint32_t instructions, uint32_t routines, bool share) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<uint32_t> zeros(1000, 0);
  std::vector<int64_t> numbers(1000, 0);
  auto operands = builder.CreateVector(zeros), results = builder.CreateVector<uint32_t>({0});
  auto integers = plan::CreateIntegers(builder, builder.CreateVector(numbers));
  std::vector<flatbuffers::Offset<plan::Instruction>> steps;
  std::vector<flatbuffers::Offset<plan::Value>> values;
  values.push_back(
      plan::CreateValue(builder, plan::ValueKind::Sequence, 1, false, 0, plan::Storage::Parameter));
  for (uint32_t i = 0; i < instructions; ++i) {
    values.push_back(
        plan::CreateValue(builder, plan::ValueKind::Sequence, 1, false, 0, plan::Storage::Heap));
    auto own = share ? operands : builder.CreateVector(zeros);
    steps.push_back(plan::CreateInstruction(builder, plan::Opcode::Routine, 0, own,
                                            builder.CreateVector<uint32_t>({i + 1}), 0, 0, 0, 0,
                                            kAbsent));
  }
  auto name = builder.CreateString("axis"), concat = builder.CreateString("sequence_construct");
  std::vector<flatbuffers::Offset<plan::Routine>> table;
  for (uint32_t i = 0; i < routines; ++i) {
    auto own = share ? integers : plan::CreateIntegers(builder, builder.CreateVector(numbers));
    auto attribute =
        plan::CreateAttribute(builder, name, plan::AttributeValue::Integers, own.Union());
    table.push_back(plan::CreateRoutine(builder, concat, builder.CreateVector(&attribute, 1)));
  }
  auto function =
      plan::CreateFunction(builder, builder.CreateString("main"), 0, 0, 0,
                           builder.CreateVector(values), results, 0, builder.CreateVector(steps));
  auto input = plan::CreatePort(builder, builder.CreateString("x"), 0);
  plan::FinishModuleBuffer(
      builder, plan::CreateModule(builder, 0, 0, 0, 0, 0, builder.CreateVector(&function, 1), 0,
                                  builder.CreateVector(table), builder.CreateVector(&input, 1)));
  return assemble(std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())), {});
}

// What lists add up to would no longer fit the 32 bits that a program counts in, and a file of a
// megabyte could take gigabytes to load.
TEST(BadModule, ListsThatShareTheirContents) {
  EXPECT_EQ(loadStatus(sharingModule(10, 10, false)).message(), "");
  expectRefused(sharingModule(1000, 1, true), "share their contents");
  expectRefused(sharingModule(1, 1000, true), "share their contents");
}

TEST(BadModule, FunctionsThatCallOneAnotherInACircle) {
  auto calling = [](uint32_t count, bool circle) {
    ModuleBuilder module;
    for (uint32_t i = 0; i < count; ++i) {
      FunctionBuilder function("f" + std::to_string(i));
      uint32_t c = function.value("c", DataType::Bool, {}, plan::Storage::Constant);
      uint32_t next = i + 1 < count ? i + 1 : 0;
      if (i + 1 < count || circle)
        function.add(plan::Opcode::If, 0, {c}, {}).functions = {next, next};
      module.add(std::move(function));
    }
    return module.finish(std::vector<float>(16));
  };
  EXPECT_TRUE(loadStatus(calling(100, false)).ok());
  expectRefused(calling(100, true), "circle");
  expectRefused(calling(1, true), "circle");
  expectRefused(calling(10000, false), "too deep");
}

// Whatever stands in the plan, loading and describing it reads nothing out of bounds
// (AddressSanitizer sees it). Kernels are trusted, so what loads is not run.
TEST(BadModule, RandomPlansUnderRightHashes) {
  Bytes good = goodModule();
  auto sections = findSections(good);
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    Bytes bad = good;
    for (int flips = 1 + int(random() % 4); flips > 0; --flips)
      bad[sections->plan.offset + random() % sections->plan.size] = std::byte(random());
    reseal(bad);
    refused += !loadStatus(bad).ok();
  }
  EXPECT_GT(refused, 1000);
}

} // namespace
