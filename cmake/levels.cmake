# The kernels of src/vec, once per level and precision, for one library: add_levels(TARGET OUT MARCH SOURCES...) tells TARGET, which
# has src/vec/kernels.c, what there is to choose from when the program is loaded, and puts the objects into OUT. A MARCH, or a
# processor family without levels, makes it a single level.
function(add_level out suffix name sources) # and flags
  foreach(precision 32 64)
    set(kernels fedloom_${suffix}_f${precision})
    add_library(${kernels} OBJECT ${sources})
    target_compile_definitions(${kernels} PRIVATE LEVEL=${suffix} LEVEL_NAME="${name}" FLI_PRECISION=${precision})
    target_compile_options(${kernels} PRIVATE ${ARGN})
    target_include_directories(${kernels} PRIVATE include src ${OPENBLAS_INCLUDE})
    target_link_libraries(${kernels} PRIVATE fedloom_flags)
    list(APPEND ${out} $<TARGET_OBJECTS:${kernels}>)
  endforeach()
  set(${out} ${${out}} PARENT_SCOPE)
endfunction()

# The flags are what kernels.c asks the processor for, and no more: the levels of the x86-64 ABI have further instructions, which
# arithmetic has no use for and compilers cannot ask for by name.
function(add_levels target out march)
  if(march OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    set(name ${CMAKE_SYSTEM_PROCESSOR})
    if(march)
      set(name ${march})
    endif()
    add_level(objects own ${name} "${ARGN}")
    target_compile_definitions(${target} PRIVATE FLI_LEVELS_X86=0 FLI_LEVEL_NAME="${name}")
    set(${out} ${objects} PARENT_SCOPE)
    return()
  endif()
  set(v2 -mssse3 -msse4.2 -mpopcnt)
  set(v3 ${v2} -mavx2 -mfma -mbmi -mbmi2)
  set(v4 ${v3} -mavx512f -mavx512vl -mavx512bw -mavx512dq)
  foreach(level v2 v3 v4)
    add_level(objects ${level} x86-64-${level} "${ARGN}" ${${level}})
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
  target_compile_definitions(${target} PRIVATE FLI_LEVELS_X86=1)
endfunction()
