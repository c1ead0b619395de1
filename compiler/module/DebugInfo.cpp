// Sections by LLVM's writer of DWARF; see DebugInfo.h.
#include "compiler/module/DebugInfo.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ObjectYAML/DWARFEmitter.h"
#include "llvm/ObjectYAML/DWARFYAML.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <map>

namespace tensmith::modules {
namespace {

namespace dwarf = llvm::dwarf;
namespace yaml = llvm::DWARFYAML;

enum Code : uint32_t { kEnd, kUnit, kFunction, kLabel };

class Writer {
public:
  Writer(std::span<const DebugFunction> functions, int bits)
      : functions_(functions), bytes_(unsigned(bits / 8)) {
    data_.IsLittleEndian = true;
    data_.Is64BitAddrSize = bits == 64;
    for (const DebugFunction &function : functions)
      for (const SourceNode &node : function.nodes)
        files_.try_emplace(node.file, files_.size() + 1);
  }

  Result<std::vector<std::pair<std::string, std::string>>> run() {
    addAbbreviations();
    addUnit();
    addLines();
    std::vector<std::pair<std::string, std::string>> sections;
    for (auto [name, emit] : {std::pair{".debug_abbrev", &yaml::emitDebugAbbrev},
                              {".debug_info", &yaml::emitDebugInfo},
                              {".debug_line", &yaml::emitDebugLine}}) {
      std::string contents;
      llvm::raw_string_ostream stream(contents);
      if (llvm::Error error = emit(stream, data_))
        return Status(StatusCode::Internal,
                      "debug information: " + llvm::toString(std::move(error)));
      sections.emplace_back(name, std::move(contents));
    }
    return sections;
  }

private:
  static yaml::FormValue number(uint64_t value) { return {llvm::yaml::Hex64(value), {}, {}}; }
  static yaml::FormValue text(llvm::StringRef value) { return {{}, value, {}}; }

  void addAbbreviations() {
    auto add = [&](Code code, dwarf::Tag tag, bool hasChildren,
                   std::initializer_list<std::pair<dwarf::Attribute, dwarf::Form>> attributes) {
      yaml::Abbrev abbreviation{llvm::yaml::Hex64(code),
                                tag,
                                hasChildren ? dwarf::DW_CHILDREN_yes : dwarf::DW_CHILDREN_no,
                                {}};
      for (auto [attribute, form] : attributes)
        abbreviation.Attributes.push_back({attribute, form, {}});
      data_.DebugAbbrev[0].Table.push_back(std::move(abbreviation));
    };
    data_.DebugAbbrev.emplace_back();
    add(kUnit, dwarf::DW_TAG_compile_unit, true,
        {{dwarf::DW_AT_producer, dwarf::DW_FORM_string},
         {dwarf::DW_AT_language, dwarf::DW_FORM_data2},
         {dwarf::DW_AT_name, dwarf::DW_FORM_string},
         {dwarf::DW_AT_stmt_list, dwarf::DW_FORM_sec_offset},
         {dwarf::DW_AT_low_pc, dwarf::DW_FORM_addr},
         {dwarf::DW_AT_high_pc, dwarf::DW_FORM_udata}});
    add(kFunction, dwarf::DW_TAG_subprogram, true,
        {{dwarf::DW_AT_name, dwarf::DW_FORM_string},
         {dwarf::DW_AT_decl_file, dwarf::DW_FORM_udata},
         {dwarf::DW_AT_decl_line, dwarf::DW_FORM_udata},
         {dwarf::DW_AT_low_pc, dwarf::DW_FORM_addr},
         {dwarf::DW_AT_high_pc, dwarf::DW_FORM_udata}});
    add(kLabel, dwarf::DW_TAG_label, false,
        {{dwarf::DW_AT_name, dwarf::DW_FORM_string},
         {dwarf::DW_AT_decl_file, dwarf::DW_FORM_udata},
         {dwarf::DW_AT_decl_line, dwarf::DW_FORM_udata},
         {dwarf::DW_AT_low_pc, dwarf::DW_FORM_addr}});
  }

  void addUnit() {
    uint64_t low = UINT64_MAX, high = 0;
    for (const DebugFunction &function : functions_) {
      low = std::min(low, function.address);
      high = std::max(high, function.address + function.size);
    }
    yaml::Unit unit{};
    unit.Format = dwarf::DWARF32;
    unit.Version = 4;
    unit.AddrSize = uint8_t(bytes_);
    unit.AbbrevTableID = 0;
    auto add = [&](Code code, std::vector<yaml::FormValue> values) {
      unit.Entries.push_back({llvm::yaml::Hex32(code), std::move(values)});
    };
    add(kUnit, {text("tensmith"), number(dwarf::DW_LANG_C99), text(functions_[0].nodes[0].file),
                number(0), number(low), number(high - low)});
    for (const DebugFunction &function : functions_) {
      const SourceNode &first = function.nodes.front();
      add(kFunction, {text(function.name), number(files_.at(first.file)), number(first.line),
                      number(function.address), number(function.size)});
      for (const SourceNode &node : function.nodes)
        add(kLabel, {text(node.name), number(files_.at(node.file)), number(node.line),
                     number(function.address)});
      add(kEnd, {});
    }
    add(kEnd, {});
    data_.CompileUnits.push_back(std::move(unit));
  }

  void addLines() {
    yaml::LineTable table{};
    table.Format = dwarf::DWARF32;
    table.Version = 4;
    table.MinInstLength = table.MaxOpsPerInst = table.DefaultIsStmt = table.LineRange = 1;
    table.OpcodeBase = 13; // no special opcodes: a function has one row
    table.StandardOpcodeLengths = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};
    std::vector<llvm::StringRef> names(files_.size());
    for (const auto &[name, number] : files_)
      names[number - 1] = name;
    for (llvm::StringRef name : names)
      table.Files.push_back({name, 0, 0, 0});
    for (const DebugFunction &function : functions_)
      addLine(function, table.Opcodes);
    data_.DebugLines.push_back(std::move(table));
  }

  void addLine(const DebugFunction &function, std::vector<yaml::LineTableOpcode> &opcodes) {
    const SourceNode &first = function.nodes.front();
    auto add = [&](dwarf::LineNumberOps operation) -> yaml::LineTableOpcode & {
      opcodes.push_back({});
      opcodes.back().Opcode = operation;
      return opcodes.back();
    };
    auto extended = [&](dwarf::LineNumberExtendedOps operation, uint64_t bytes, uint64_t value) {
      yaml::LineTableOpcode &opcode = add(dwarf::DW_LNS_extended_op);
      opcode.ExtLen = bytes + 1;
      opcode.SubOpcode = operation;
      opcode.Data = value;
    };
    extended(dwarf::DW_LNE_set_address, bytes_, function.address);
    add(dwarf::DW_LNS_set_file).Data = files_.at(first.file);
    add(dwarf::DW_LNS_advance_line).SData = int64_t(first.line) - 1;
    add(dwarf::DW_LNS_copy);
    add(dwarf::DW_LNS_advance_pc).Data = function.size;
    extended(dwarf::DW_LNE_end_sequence, 0, 0);
  }

  std::span<const DebugFunction> functions_;
  unsigned bytes_; // of an address
  std::map<std::string, uint64_t> files_;
  yaml::Data data_{};
};

} // namespace

Result<std::vector<std::pair<std::string, std::string>>>
debugSections(std::span<const DebugFunction> functions, int bits) {
  if (functions.empty())
    return std::vector<std::pair<std::string, std::string>>();
  return Writer(functions, bits).run();
}

} // namespace tensmith::modules
