// Compiling a kernel's text, loading what comes of it, and calling it through the ABI with services
// of the test's own.
#pragma once

#include "compiler/module/ModuleWriter.h"
#include "compiler/targets/cpu/codegen/Codegen.h"
#include "compiler/targets/cpu/codegen/Dialects.h"
#include "compiler/targets/cpu/codegen/KernelCompiler.h"
#include "runtime/KernelAbi.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <memory>
#include <unistd.h>

namespace tensmith::targets::cpu {

/// A folder of the test's own, gone with it.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "tensmith-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string &path() const { return path_; }

private:
  std::string path_;
};

inline Result<std::string> compileText(const std::string &text, const Cpu &machine,
                                       CodegenOptions options = {}) {
  mlir::DialectRegistry registry;
  registerCodegenDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return invalidArgument("the test's kernel doesn't parse");
  return compileToObject(*module, machine, options);
}

/// The entry and body around `inner`, which is given as text: a func.func @tensmith_kernel.inner
/// over `arguments` pointers to the operands and two index bounds. The count of items is the first
/// size.
inline std::string frame(int arguments, const std::string &inner) {
  std::string loads, pass, types;
  for (int argument = 0; argument < arguments; ++argument) {
    std::string n = std::to_string(argument);
    loads += "    %a" + n + " = llvm.getelementptr %operands[" + n +
             "] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr\n";
    loads += "    %p" + n + " = llvm.load %a" + n + " : !llvm.ptr -> !llvm.ptr\n";
    pass += "%p" + n + ", ";
    types += "!llvm.ptr, ";
  }
  return R"(
  llvm.func @tensmith_kernel(%call: !llvm.ptr) -> i32 {
    %sizesAt = llvm.getelementptr %call[8] : (!llvm.ptr) -> !llvm.ptr, i8
    %sizes = llvm.load %sizesAt : !llvm.ptr -> !llvm.ptr
    %count = llvm.load %sizes : !llvm.ptr -> i64
    %servicesAt = llvm.getelementptr %call[16] : (!llvm.ptr) -> !llvm.ptr, i8
    %services = llvm.load %servicesAt : !llvm.ptr -> !llvm.ptr
    %for = llvm.load %services : !llvm.ptr -> !llvm.ptr
    %grain = llvm.mlir.constant(1024 : i64) : i64
    %body = llvm.mlir.addressof @tensmith_kernel.body : !llvm.ptr
    llvm.call %for(%call, %count, %grain, %body, %call) : !llvm.ptr, (!llvm.ptr, i64, i64, !llvm.ptr, !llvm.ptr) -> ()
    %zero = llvm.mlir.constant(0 : i32) : i32
    llvm.return %zero : i32
  }
  llvm.func internal @tensmith_kernel.body(%call: !llvm.ptr, %first: i64, %last: i64) {
    %operands = llvm.load %call : !llvm.ptr -> !llvm.ptr
)" + loads +
         R"(    %begin = arith.index_cast %first : i64 to index
    %end = arith.index_cast %last : i64 to index
    func.call @tensmith_kernel.inner()" +
         pass + "%begin, %end) : (" + types + R"(index, index) -> ()
    llvm.return
  }
)" + inner;
}

/// An element-wise kernel result[i] = f(operand[i]); `code` computes %y from %x.
inline std::string elementwise(const std::string &from, const std::string &to,
                               const std::string &code) {
  return frame(2, R"(
  func.func private @tensmith_kernel.inner(%in: !llvm.ptr {llvm.noalias}, %out: !llvm.ptr {llvm.noalias}, %begin: index, %end: index)
      attributes {passthrough = ["noinline"]} {
    %one = arith.constant 1 : index
    scf.for %i = %begin to %end step %one {
      %n = arith.index_cast %i : index to i64
      %from = llvm.getelementptr %in[%n] : (!llvm.ptr, i64) -> !llvm.ptr, )" +
                      from + R"(
      %to = llvm.getelementptr %out[%n] : (!llvm.ptr, i64) -> !llvm.ptr, )" +
                      to + R"(
      %x = llvm.load %from : !llvm.ptr -> )" +
                      from + "\n" + code + R"(
      llvm.store %y, %to : )" +
                      to + R"(, !llvm.ptr
    }
    return
  })");
}

/// A module loaded as a program would load it.
class LoadedModule {
public:
  explicit LoadedModule(const std::string &path)
      : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  ~LoadedModule() {
    if (handle_)
      dlclose(handle_);
  }
  TensmithKernel kernel(const std::string &symbol) const {
    return handle_ ? reinterpret_cast<TensmithKernel>(dlsym(handle_, symbol.c_str())) : nullptr;
  }

private:
  void *handle_;
};

/// A kernel's text, compiled without a cache, linked and loaded.
class LoadedKernel {
public:
  static Result<std::unique_ptr<LoadedKernel>> of(const std::string &text,
                                                  const Cpu &machine = hostCpu()) {
    CodeOptions options;
    options.cacheFolder.clear();
    KernelSource source{"test", text};
    auto kernels = compileKernels({&source, 1}, machine, options);
    if (!kernels.ok())
      return kernels.status();
    std::unique_ptr<LoadedKernel> loaded(new LoadedKernel);
    modules::ModuleParts parts;
    parts.objects = kernels->objects;
    std::string path = loaded->folder_.path() + "/m.so";
    if (Status status = modules::writeModule(parts, path); !status.ok())
      return status;
    loaded->module_ = std::make_unique<LoadedModule>(path);
    loaded->entry_ = loaded->module_->kernel(kernels->symbols[0]);
    return loaded->entry_ ? Result(std::move(loaded))
                          : Status(StatusCode::Internal, "the module can't be loaded");
  }

  TensmithKernel entry() const { return entry_; }

private:
  LoadedKernel() = default;

  TemporaryFolder folder_;
  std::unique_ptr<LoadedModule> module_;
  TensmithKernel entry_ = nullptr;
};

/// Calls with services that run everything in one range on this thread.
inline int32_t callKernel(TensmithKernel kernel, std::vector<void *> operands,
                          std::vector<int64_t> sizes) {
  TensmithServices services{};
  services.parallel_for = [](const TensmithCall *call, int64_t count, int64_t, TensmithBody body,
                             void *closure) { body(closure, 0, count); };
  services.scratch = [](const TensmithCall *, int64_t) -> void * { return nullptr; };
  services.fail = [](const TensmithCall *, int32_t, int64_t) -> int32_t { return 1; };
  TensmithCall call{operands.data(), sizes.data(), &services, nullptr};
  return kernel(&call);
}

} // namespace tensmith::targets::cpu
