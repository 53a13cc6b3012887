# src/cuda, for GPUs: find_cuda() sets FEDLOOM_WITH_CUDA, and add_cuda(OUT LIBRARIES) puts the object into OUT and what it needs into
# LIBRARIES. nvcc compiles each kernel for the processors named below, and leaves what later ones can compile for themselves. The runtime
# is linked statically and finds the driver when it is first asked, so that programs start where there is neither.
set(FEDLOOM_CUDA AUTO CACHE STRING "runs on GPUs: ON, OFF, or AUTO, where nvcc is found")
set(FEDLOOM_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "GPUs to compile for, as CMAKE_CUDA_ARCHITECTURES")

macro(find_cuda) # a macro, since a language is enabled for the caller
  set(FEDLOOM_WITH_CUDA ${FEDLOOM_CUDA})
  if(FEDLOOM_CUDA STREQUAL AUTO)
    set(FEDLOOM_WITH_CUDA OFF)
    if(NOT FEDLOOM_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
      include(CheckLanguage)
      check_language(CUDA)
      if(CMAKE_CUDA_COMPILER)
        set(FEDLOOM_WITH_CUDA ON)
      endif()
    endif()
  endif()
  if(FEDLOOM_WITH_CUDA)
    set(CMAKE_CUDA_ARCHITECTURES ${FEDLOOM_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    message(STATUS "GPUs: CUDA ${CMAKE_CUDA_COMPILER_VERSION}")
  else()
    message(STATUS "GPUs: none (nvcc was not found, or is switched off)")
  endif()
endmacro()

# Flags for everything that nvcc compiles.
function(cuda_flags target)
  set_target_properties(${target} PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF
                        CUDA_VISIBILITY_PRESET hidden)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler=-Wall,-Wextra,-Wshadow,-fno-exceptions,-fno-rtti>"
    "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${FEDLOOM_WERROR}>>:SHELL:-Werror=all-warnings -Xcompiler=-Werror>")
endfunction()

function(add_cuda out libraries)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/*.c ${PROJECT_SOURCE_DIR}/src/cuda/*.cu)
  find_library(CUDART_LIBRARY cudart_static HINTS ${CMAKE_CUDA_HOST_IMPLICIT_LINK_DIRECTORIES}
               ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} REQUIRED)
  add_library(fedloom_cuda OBJECT ${sources})
  cuda_flags(fedloom_cuda)
  target_include_directories(fedloom_cuda PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(fedloom_cuda SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  target_link_libraries(fedloom_cuda PRIVATE fedloom_flags)
  # One object of which CMake does not know that nvcc made it: else whoever uses the static library would have to link by nvcc's rules.
  set(object ${PROJECT_BINARY_DIR}/fedloom_cuda${CMAKE_C_OUTPUT_EXTENSION})
  add_custom_command(OUTPUT ${object} COMMAND ${CMAKE_LINKER} -r -o ${object} $<TARGET_OBJECTS:fedloom_cuda>
                     DEPENDS $<TARGET_OBJECTS:fedloom_cuda> COMMAND_EXPAND_LISTS VERBATIM)
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  add_custom_target(fedloom_cuda_object DEPENDS ${object}) # both libraries have it, and only one may make it
  add_dependencies(fedloom_cuda_object fedloom_cuda)       # make does not see that from the objects
  set(${out} ${object} PARENT_SCOPE)
  set(${libraries} ${CUDART_LIBRARY} rt stdc++ PARENT_SCOPE) # stdc++: launches have guarded statics
endfunction()
