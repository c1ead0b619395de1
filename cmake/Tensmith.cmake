# Settings and the functions that the folders' CMakeLists.txt are written with.
include(GNUInstallDirs)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_BUILD_WITH_INSTALL_RPATH OFF)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}:$ORIGIN")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON) # MLIR lies in a folder of LLVM's, where the loader does not look

# pip calls CMake without a preset.
find_program(TENSMITH_CCACHE ccache)
if(SKBUILD AND TENSMITH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_SOURCE_DIR}/cmake/cached-compile ${CMAKE_SOURCE_DIR})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()

add_compile_options(-Wall -Wextra -Wno-unused-parameter -ffunction-sections -fdata-sections)
if(TENSMITH_SANITIZE)
  add_compile_options(-fsanitize=${TENSMITH_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${TENSMITH_SANITIZE})
endif()
if(TENSMITH_FUZZ) # libFuzzer's counters, in what is linked into the fuzzers; plug-ins are none of it
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
# Of what says or runs the meaning of operators: a product and a sum are rounded one after the other on every machine, also
# where the compiler would make one instruction of them (ARM, RISC-V).
set(TENSMITH_SAME_ROUNDING -ffp-contract=off)
include_directories(${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR}/include)

find_package(Threads REQUIRED)

if(TENSMITH_COMPILER)
  find_package(fmt REQUIRED)
  find_package(ZLIB REQUIRED)
  find_package(MLIR 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/mlir)
  list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
  cmake_policy(SET CMP0116 OLD) # TableGen's rules write dependencies from the build folder, or would run every time
  include(TableGen)
  include(AddLLVM)
  include(AddMLIR)
  set(TENSMITH_LLVM MLIR LLVM) # the shared libraries
  set(TENSMITH_LLVM_CORE LLVM) # for what includes no MLIR
  if(TENSMITH_STATIC_LLVM)
    include(StaticLlvm)
    set(TENSMITH_LLVM "") # the compiler's library brings the archives
    set(TENSMITH_LLVM_CORE "")
  endif()
endif()
if(TENSMITH_TESTS)
  find_package(GTest REQUIRED)
  enable_testing()
  add_custom_target(test-programs) # what ./test builds beyond `all`
endif()

# tensmith_library(NAME SOURCES file... [LINK target...] [MLIR] [EXPORTED])
# A static library of one layer. MLIR: it includes MLIR, and so uses the compiler's precompiled header. EXPORTED: plug-ins
# are linked with its names (compiler/extend), which the compiler's library and tensmith-opt show.
function(tensmith_library name)
  cmake_parse_arguments(ARG "MLIR;EXPORTED" "" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_SOURCES) # a layer of headers alone
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARG_LINK})
    return()
  endif()
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  if(ARG_EXPORTED AND TENSMITH_COMPILER)
    set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET default)
    set_property(GLOBAL APPEND PROPERTY TENSMITH_EXPORTED ${name})
  endif()
  if(ARG_MLIR)
    target_include_directories(${name} SYSTEM PUBLIC ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
    target_link_libraries(${name} PUBLIC ${TENSMITH_LLVM})
    if(TARGET tensmith_pch)
      target_precompile_headers(${name} REUSE_FROM tensmith_pch)
      target_link_libraries(${name} PRIVATE tensmith_pch)
    endif()
    if(TARGET tensmith_graph_tablegen)
      add_dependencies(${name} tensmith_graph_tablegen)
    endif()
  endif()
endfunction()

# tensmith_show_exported(NAME)
# What loads plug-ins has all of the libraries that are EXPORTED, though it needs not all of them itself.
function(tensmith_show_exported name)
  get_property(exported GLOBAL PROPERTY TENSMITH_EXPORTED)
  list(TRANSFORM exported REPLACE "(.+)" "$<TARGET_FILE:\\1>")
  target_link_libraries(${name} PRIVATE -Wl,--whole-archive ${exported} -Wl,--no-whole-archive)
endfunction()

# tensmith_embedded_programs(RESULT KEY file...)
# Programs of the language as initialisers of an array, {KEY, their text}, where NAME in KEY is the file's name without its
# ending. A file that changes configures the build anew.
function(tensmith_embedded_programs result key)
  set(entries "")
  foreach(program ${ARGN})
    get_filename_component(name ${program} NAME_WE)
    string(REPLACE NAME "${name}" own "${key}")
    file(READ ${program} text)
    string(APPEND entries "{${own}, R\"tsm(${text})tsm\"},\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${program})
  endforeach()
  set(${result} "${entries}" PARENT_SCOPE)
endfunction()

# tensmith_random_program(NAME SOURCES file... LINK target...)
# A program of the tests that draws its own cases, built with them.
function(tensmith_random_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
  add_dependencies(test-programs ${name})
  target_include_directories(${name} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
  target_precompile_headers(${name} REUSE_FROM tensmith_pch)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
  target_compile_options(${name} PRIVATE -fPIC)
  target_link_libraries(${name} PRIVATE tensmith_pch ${ARG_LINK})
endfunction()

# tensmith_test(NAME SOURCES file... [LINK target...] [MLIR])
# A GoogleTest program of a folder's test/, run by `ctest` case by case.
function(tensmith_test name)
  cmake_parse_arguments(ARG "MLIR" "" "SOURCES;LINK" ${ARGN})
  if(NOT TENSMITH_TESTS)
    return()
  endif()
  add_executable(${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
  add_dependencies(test-programs ${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  if(ARG_MLIR)
    target_include_directories(${name} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
    if(TARGET tensmith_pch)
      target_precompile_headers(${name} REUSE_FROM tensmith_pch)
      target_link_libraries(${name} PRIVATE tensmith_pch)
      # The precompiled header is of position-independent code; CMake compiles programs with -fPIE instead.
      set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${name} PRIVATE -fPIC)
    endif()
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
  include(GoogleTest)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${name}:")
endfunction()

# The Python that the ONNX schemas are taken from and, unless a wheel is made for another one, that the extension is built
# for: the checkout's own, where there is one.
if(NOT TENSMITH_PYTHON_EXECUTABLE)
  set(TENSMITH_PYTHON_EXECUTABLE python3)
  if(SKBUILD)
    set(TENSMITH_PYTHON_EXECUTABLE ${Python_EXECUTABLE})
  elseif(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
    set(TENSMITH_PYTHON_EXECUTABLE ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  endif()
endif()
