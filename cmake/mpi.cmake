# src/mpi, for runs over several processes: find_mpi() sets FEDLOOM_WITH_MPI, and add_mpi() adds the library fedloom_mpi, which is all
# that is linked with MPI. The program loads it when an MPI launcher started it.
set(FEDLOOM_MPI AUTO CACHE STRING "runs over several processes by MPI: ON, OFF, or AUTO, where an MPI library is found")

function(find_mpi)
  set(with OFF)
  if(FEDLOOM_MPI STREQUAL AUTO AND NOT CMAKE_CROSSCOMPILING AND NOT FEDLOOM_SANITIZE)
    find_package(MPI 3.0 QUIET COMPONENTS C)
    set(with ${MPI_C_FOUND})
  elseif(FEDLOOM_MPI AND NOT FEDLOOM_MPI STREQUAL AUTO)
    find_package(MPI 3.0 REQUIRED COMPONENTS C)
    set(with ON)
  endif()
  if(with)
    message(STATUS "several processes: MPI ${MPI_C_VERSION}, ${MPI_C_COMPILER}")
  else()
    message(STATUS "several processes: no (MPI was not found, or is switched off)")
  endif()
  set(FEDLOOM_WITH_MPI ${with} PARENT_SCOPE)
endfunction()

# Only the functions of fedloom_mpi.h are visible outside.
function(add_mpi)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/mpi/*.c)
  add_library(fedloom_mpi SHARED ${sources})
  add_library(fedloom::mpi ALIAS fedloom_mpi)
  target_include_directories(fedloom_mpi PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(fedloom_mpi PRIVATE fedloom_flags MPI::MPI_C)
  set_target_properties(fedloom_mpi PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                        BUILD_RPATH "" INSTALL_RPATH "" INSTALL_RPATH_USE_LINK_PATH ON
                        LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
  target_link_options(fedloom_mpi PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
endfunction()
