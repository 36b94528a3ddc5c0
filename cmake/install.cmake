# The files that `make install` copies: headers, the library, and the files by which pkg-config and
# CMake find them.  No file contains the prefix, so the installation can be moved.
include(CMakePackageConfigHelpers)

set(WEFT_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
file(RELATIVE_PATH WEFT_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/weft.pc.in weft.pc @ONLY)
configure_package_config_file(cmake/weft-config.cmake.in weft-config.cmake
  INSTALL_DESTINATION ${WEFT_CMAKE_DIR})
write_basic_package_version_file(weft-config-version.cmake COMPATIBILITY SameMinorVersion)

set(targets weft)
if(WEFT_SHARED)
  list(APPEND targets weft_shared)
endif()
install(TARGETS ${targets} EXPORT weft-targets DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(EXPORT weft-targets NAMESPACE weft:: DESTINATION ${WEFT_CMAKE_DIR})
install(FILES ${PROJECT_BINARY_DIR}/weft-config.cmake ${PROJECT_BINARY_DIR}/weft-config-version.cmake
  DESTINATION ${WEFT_CMAKE_DIR})
