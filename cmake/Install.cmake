# What `cmake --install` lays down: the libraries, the public headers and the configuration of find_package. The
# component `runtime` is all that a program needs which only runs modules; `compiler` comes on top. What programs are built with is
# in `runtime-dev` and `compiler-dev`, and in `plugin` the C++ that plug-ins are written against.
include(CMakePackageConfigHelpers)
set(TENSMITH_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tensmith)

# tensmith_install(COMPONENT TARGET header...): the component's library as tensmith::COMPONENT.
function(tensmith_install component target)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${component})
  install(TARGETS ${target} EXPORT tensmith-${component}-targets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component} NAMELINK_COMPONENT ${component}-dev)
  install(FILES ${ARGN} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tensmith COMPONENT ${component}-dev)
  install(EXPORT tensmith-${component}-targets NAMESPACE tensmith:: DESTINATION ${TENSMITH_CMAKE_DIR}
          COMPONENT ${component}-dev)
endfunction()

# tensmith_pkgconfig(COMPONENT DESCRIPTION [REQUIRED...]): the same for pkg-config, as tensmith-COMPONENT, wherever it is put.
file(RELATIVE_PATH TENSMITH_PREFIX_FROM_PKGCONFIG /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
function(tensmith_pkgconfig component description)
  list(JOIN ARGN " " requires)
  configure_file(cmake/tensmith.pc.in ${CMAKE_BINARY_DIR}/tensmith-${component}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/tensmith-${component}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
          COMPONENT ${component}-dev)
endfunction()

tensmith_install(runtime tensmith_runtime include/tensmith/tensmith.h include/tensmith/tensmith.hpp include/tensmith/workers.h)
tensmith_pkgconfig(runtime "Runs modules that tensmith has compiled")
if(TARGET tensmith_compiler)
  tensmith_install(compiler tensmith_compiler include/tensmith/compiler.h include/tensmith/builder.h include/tensmith/dsl.hpp
                   include/tensmith/dsl_tensors.hpp)
  tensmith_pkgconfig(compiler "Compiles deep-learning models to modules" tensmith-runtime)
endif()
if(TARGET tensmith_compiler)
  set(include ${CMAKE_INSTALL_INCLUDEDIR}/tensmith-plugin)
  get_property(headers GLOBAL PROPERTY TENSMITH_PLUGIN_HEADERS)
  foreach(header ${headers})
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE relative)
    cmake_path(GET relative PARENT_PATH folder)
    install(FILES ${header} DESTINATION ${include}/${folder} COMPONENT plugin)
  endforeach()
  install(FILES ${CMAKE_BINARY_DIR}/compiler/extend/Abi.inc DESTINATION ${include}/compiler/extend COMPONENT plugin)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/compiler/graph DESTINATION ${include}/compiler COMPONENT plugin
          FILES_MATCHING PATTERN "*.h.inc" PATTERN "CMakeFiles" EXCLUDE)
  file(RELATIVE_PATH TENSMITH_PLUGIN_FROM_CMAKE /${TENSMITH_CMAKE_DIR} /${include})
  configure_file(cmake/tensmith-plugin.cmake.in ${CMAKE_BINARY_DIR}/tensmith-plugin.cmake @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/tensmith-plugin.cmake DESTINATION ${TENSMITH_CMAKE_DIR} COMPONENT plugin)
endif()
set(TENSMITH_COMPILER_LIBRARY ${CMAKE_INSTALL_LIBDIR}/libtensmith_compiler.so.${PROJECT_VERSION_MAJOR})
configure_package_config_file(cmake/tensmith-config.cmake.in ${CMAKE_BINARY_DIR}/tensmith-config.cmake
                              INSTALL_DESTINATION ${TENSMITH_CMAKE_DIR} PATH_VARS TENSMITH_COMPILER_LIBRARY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tensmith-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tensmith-config.cmake ${CMAKE_BINARY_DIR}/tensmith-config-version.cmake
        DESTINATION ${TENSMITH_CMAKE_DIR} COMPONENT runtime-dev)
include(Package)
