# Toolchain file: the runtime for a board, built on this machine by clang. TENSMITH_CROSS is the board's triple, as Debian's
# cross packages have it (libc6-dev-arm64-cross, libstdc++-12-dev-arm64-cross and their like, scripts/packages.debian).
#
# Of this machine only headers that are all of a library are used, through links in the build folder: the rest of its
# headers, which are for its own processor, stays out of sight.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TENSMITH_CROSS)
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "${TENSMITH_CROSS}")
set(CMAKE_C_COMPILER clang-19)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_C_COMPILER_TARGET ${TENSMITH_CROSS})
set(CMAKE_CXX_COMPILER_TARGET ${TENSMITH_CROSS})

# For compiling alone: the libraries name one another by whole paths.
set(CMAKE_SYSROOT_COMPILE /usr/${TENSMITH_CROSS})
file(GLOB libraries /usr/lib/gcc-cross/${TENSMITH_CROSS}/*/libstdc++.a)
if(NOT libraries)
  message(FATAL_ERROR "There are no libraries for ${TENSMITH_CROSS}; install the packages of the part \"boards\" of scripts/packages.debian")
endif()
list(GET libraries -1 library)
get_filename_component(gcc ${library} DIRECTORY)
set(flags --gcc-install-dir=${gcc})
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "arm")
  # What every ARMv7 board with the hard-float convention has; a module brings kernels for more. Files may be large.
  string(APPEND flags " -march=armv7-a -mfpu=vfpv3-d16 -mfloat-abi=hard -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64")
endif()
set(CMAKE_C_FLAGS_INIT "${flags}")
set(CMAKE_CXX_FLAGS_INIT "${flags}")

set(CMAKE_FIND_ROOT_PATH /usr/${TENSMITH_CROSS})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

get_property(trying GLOBAL PROPERTY IN_TRY_COMPILE)
if(NOT trying)
  set(TENSMITH_HOST_HEADERS ${CMAKE_BINARY_DIR}/host-headers)
  file(MAKE_DIRECTORY ${TENSMITH_HOST_HEADERS})
  foreach(header flatbuffers fmt nlohmann CLI xxhash.h)
    if(NOT EXISTS /usr/include/${header})
      message(FATAL_ERROR "There is no /usr/include/${header}; install what scripts/packages.debian lists")
    endif()
    file(CREATE_LINK /usr/include/${header} ${TENSMITH_HOST_HEADERS}/${header} SYMBOLIC)
  endforeach()
  include_directories(SYSTEM ${TENSMITH_HOST_HEADERS})
endif()
