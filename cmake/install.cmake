# What `make install` puts where. All of it can be moved as a whole afterwards: places are given relative to each other.
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/fedloom)
set(share ${CMAKE_INSTALL_DATADIR}/fedloom)

# The program looks for its experiments, and for libfedloom_mpi, from where it is.
if(TARGET fedloom_program)
  file(RELATIVE_PATH to_experiments ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_DATADIR}/fedloom/experiments)
  file(RELATIVE_PATH to_libraries ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  target_compile_definitions(fedloom_program PRIVATE FEDLOOM_EXPERIMENTS="${to_experiments}"
                             FEDLOOM_LIBRARIES="${to_libraries}"
                             FEDLOOM_MPI_LIBRARY="libfedloom_mpi.so.${PROJECT_VERSION_MAJOR}")
  install(TARGETS fedloom_program fedloom_client RUNTIME)
  install(DIRECTORY experiments DESTINATION ${share})
  # Where shells look with the prefixes /usr and /usr/local.
  install(FILES packaging/completion/fedloom.bash
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME fedloom)
  install(FILES packaging/completion/_fedloom DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES packaging/completion/fedloom.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  # Where systemd looks for them with the prefixes /usr and /usr/local; from others they are to be copied or linked. The prefix may
  # be another one when it is installed than it was before, so that nothing here goes by it.
  install(FILES packaging/systemd/fedloom-server.service packaging/systemd/fedloom-client@.service
          DESTINATION lib/systemd/system)
  install(FILES packaging/systemd/fedloom.sysusers DESTINATION lib/sysusers.d RENAME fedloom.conf)
endif()
install(DIRECTORY include/ TYPE INCLUDE FILES_MATCHING PATTERN *.h)
if(FEDLOOM_WITH_MPI)
  install(TARGETS fedloom_mpi LIBRARY)
endif()
install(DIRECTORY examples DESTINATION ${share} FILES_MATCHING PATTERN *.c PATTERN *.yaml)
install(FILES docs/fedloom.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES docs/fedloom-config.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)

# For CMake: find_package(fedloom), then fedloom::fedloom or fedloom::static. Two files, because only the static library needs to
# know the libraries behind it.
install(TARGETS fedloom EXPORT fedloom-shared)
install(TARGETS fedloom_static EXPORT fedloom-static)
install(EXPORT fedloom-shared NAMESPACE fedloom:: DESTINATION ${package})
install(EXPORT fedloom-static NAMESPACE fedloom:: DESTINATION ${package})
configure_package_config_file(cmake/fedloom-config.cmake.in ${PROJECT_BINARY_DIR}/fedloom-config.cmake
                              INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fedloom-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fedloom-config.cmake ${PROJECT_BINARY_DIR}/fedloom-config-version.cmake
        DESTINATION ${package})

# For pkg-config. The libraries behind fedloom are named one by one: Requires.private would ask for their pkg-config files even where
# the shared library is used.
file(RELATIVE_PATH to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" to_prefix "${to_prefix}")
set(linked ${FEDLOOM_DEPS_LDFLAGS})
if(FEDLOOM_BLAS)
  list(APPEND linked -Wl,-rpath,${OPENBLAS_DIR})
endif()
foreach(library ${FEDLOOM_LINKED})
  get_filename_component(dir ${library} DIRECTORY)
  get_filename_component(name ${library} NAME_WE)
  string(REGEX REPLACE ^lib "" name ${name})
  if(dir)
    list(APPEND linked -L${dir})
  endif()
  list(APPEND linked -l${name})
endforeach()
list(JOIN linked " " linked)
configure_file(cmake/fedloom.pc.in ${PROJECT_BINARY_DIR}/fedloom.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/fedloom.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
