# What `cmake --install` lays down: the libraries, the public headers and the configuration of find_package. The
# component `runtime` is all that a program needs which only runs modules; `compiler` comes on top.
include(CMakePackageConfigHelpers)
set(TENSMITH_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tensmith)

# tensmith_install(COMPONENT TARGET header...): the component's library as tensmith::COMPONENT.
function(tensmith_install component target)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${component})
  install(TARGETS ${target} EXPORT tensmith-${component}-targets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component} NAMELINK_COMPONENT ${component})
  install(FILES ${ARGN} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tensmith COMPONENT ${component})
  install(EXPORT tensmith-${component}-targets NAMESPACE tensmith:: DESTINATION ${TENSMITH_CMAKE_DIR}
          COMPONENT ${component})
endfunction()

tensmith_install(runtime tensmith_runtime include/tensmith/tensmith.h include/tensmith/tensmith.hpp)
if(TARGET tensmith_compiler)
  tensmith_install(compiler tensmith_compiler include/tensmith/compiler.h)
endif()
configure_package_config_file(cmake/tensmith-config.cmake.in ${CMAKE_BINARY_DIR}/tensmith-config.cmake
                              INSTALL_DESTINATION ${TENSMITH_CMAKE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tensmith-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tensmith-config.cmake ${CMAKE_BINARY_DIR}/tensmith-config-version.cmake
        DESTINATION ${TENSMITH_CMAKE_DIR} COMPONENT runtime)
