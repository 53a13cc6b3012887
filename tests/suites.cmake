# Suites of tests. Each is a line of BUILD/tests/suites (name, seconds, labels and the command for a shell, with tabs between them),
# which tests/suite.sh runs and tests/run.sh reads, and a test of CTest's, which calls tests/suite.sh. So both have the same.
file(WRITE ${PROJECT_BINARY_DIR}/tests/suites "")

# Sanitizers and emulators take this many times as long.
set(SUITE_SLOWER 1)
if(FEDLOOM_SANITIZE)
  set(SUITE_SLOWER 5)
endif()
if(CMAKE_CROSSCOMPILING_EMULATOR)
  math(EXPR SUITE_SLOWER "${SUITE_SLOWER} * 10")
endif()

# The path of @PROGRAM in the build, or of a script that emulates it.
function(built_program argument out)
  string(SUBSTRING ${argument} 1 -1 program)
  set(path ${PROJECT_BINARY_DIR}/${program})
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    list(GET CMAKE_CROSSCOMPILING_EMULATOR 0 emulator)
    find_program(EMULATOR_PATH ${emulator} REQUIRED) # some tests have an empty PATH
    list(SUBLIST CMAKE_CROSSCOMPILING_EMULATOR 1 -1 options)
    list(JOIN options " " options)
    set(script ${PROJECT_BINARY_DIR}/emulated/${program})
    file(WRITE ${script} "#!/bin/sh\nexec ${EMULATOR_PATH} ${options} \"${path}\" \"$@\"\n")
    file(CHMOD ${script} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
    set(path ${script})
  endif()
  set(${out} ${path} PARENT_SCOPE)
endfunction()

# suite(NAME LABELS LABEL... [SECONDS N] COMMAND COMMAND...): on a machine that does nothing else it takes less than N seconds (60).
# In the command, @PROGRAM is a program of the build.
function(suite name)
  cmake_parse_arguments(PARSE_ARGV 1 suite "" SECONDS "LABELS;COMMAND")
  if(NOT suite_SECONDS)
    set(suite_SECONDS 60)
  endif()
  math(EXPR seconds "${suite_SECONDS} * ${SUITE_SLOWER}")
  math(EXPR late "${seconds} * 4 + 60") # tests/suite.sh comes first
  set(command "")
  foreach(argument ${suite_COMMAND})
    if(argument MATCHES ^@)
      built_program(${argument} argument)
    endif()
    string(APPEND command " '${argument}'")
  endforeach()
  list(JOIN suite_LABELS "," labels)
  file(APPEND ${PROJECT_BINARY_DIR}/tests/suites "${name}\t${seconds}\t${labels}\t${command}\n")
  add_test(NAME ${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/suite.sh ${PROJECT_BINARY_DIR} ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${suite_LABELS}" TIMEOUT ${late} SKIP_RETURN_CODE 77)
endfunction()

# test_program(NAME FOLDER): a program of the build, labelled by the folder of its source.
function(test_program name folder)
  set(labels ${folder})
  if(name IN_LIST THREADED)
    list(APPEND labels threaded)
  endif()
  if(name IN_LIST SLOW)
    suite(${name} LABELS ${labels} slow SECONDS 600 COMMAND @tests/${name})
  else()
    suite(${name} LABELS ${labels} COMMAND @tests/${name})
  endif()
endfunction()

# What takes more than six seconds of a processor, or waits that long, is slow, and `make test-quick` leaves it out; BUILD/tests/times
# has the seconds of the last `make test`. The command line is tested at every opportunity, although it takes longer.
set(SLOW cuda_failures cuda_net cuda_runs test_promises_dr test_resume test_torture)

# Scripts around the program. Those that take long, or wait a lot, come first.
set(HERE ${CMAKE_CURRENT_LIST_DIR})
suite(net/faults LABELS net slow SECONDS 900 COMMAND ${HERE}/net/faults.sh @fedloom @tests/relay @tests/odd_client)
suite(net/join LABELS net slow SECONDS 300 COMMAND ${HERE}/net/join.sh @fedloom)
suite(cli/run LABELS cli SECONDS 300 COMMAND ${HERE}/cli/run.sh @fedloom)
suite(cli/hostile LABELS cli slow SECONDS 300 COMMAND ${HERE}/cli/hostile.sh @fedloom)
suite(cli/completion LABELS cli SECONDS 120 COMMAND ${HERE}/cli/completion.sh @fedloom)
suite(cli/init LABELS cli SECONDS 120 COMMAND ${HERE}/cli/init.sh @fedloom)
suite(cli/json LABELS cli python SECONDS 120 COMMAND ${HERE}/cli/json.sh @fedloom)
suite(cli/suggest LABELS cli COMMAND ${HERE}/cli/suggest.sh @fedloom)
suite(cli/terminal LABELS cli SECONDS 120 COMMAND ${HERE}/cli/terminal.sh @fedloom)
suite(cli/tune LABELS cli SECONDS 120 COMMAND ${HERE}/cli/tune.sh @fedloom)
suite(guide LABELS docs slow SECONDS 600 COMMAND ${HERE}/guide/run.sh @fedloom)
suite(mpi LABELS mpi slow SECONDS 300 COMMAND ${HERE}/mpi/run.sh ${PROJECT_BINARY_DIR})
suite(dist LABELS install slow SECONDS 120 COMMAND ${HERE}/dist/run.sh ${PROJECT_BINARY_DIR})
suite(dist/make LABELS install SECONDS 120 COMMAND ${HERE}/dist/make.sh ${PROJECT_BINARY_DIR})
suite(install LABELS install slow SECONDS 300 COMMAND ${HERE}/install/run.sh ${PROJECT_BINARY_DIR})
suite(runner LABELS cli COMMAND ${HERE}/runner.sh ${HERE}/run.sh)
suite(pre-commit LABELS cli COMMAND ${HERE}/pre_commit.sh ${PROJECT_SOURCE_DIR}/tools/pre-commit)
suite(docs/code LABELS docs COMMAND ${HERE}/docs/run.sh ${PROJECT_BINARY_DIR})
suite(docs/readme LABELS docs slow SECONDS 120 COMMAND ${HERE}/docs/readme.sh ${PROJECT_BINARY_DIR})
suite(docs/openapi LABELS docs COMMAND ${HERE}/docs/openapi.sh ${PROJECT_BINARY_DIR})
suite(docs/deploy LABELS docs net SECONDS 120 COMMAND ${HERE}/docs/deploy.sh ${PROJECT_BINARY_DIR})
suite(net/page LABELS net python SECONDS 120 COMMAND ${HERE}/net/page.sh @fedloom)
suite(net/client LABELS net SECONDS 120 COMMAND ${HERE}/net/client.sh @fedloom @fedloom-client)
suite(page LABELS page python SECONDS 120 COMMAND ${HERE}/page/run.sh @tests/make_page)
suite(torch LABELS python slow SECONDS 300 COMMAND ${HERE}/torch/run.sh @tests/make_models @fedloom)
# Needs an environment with packages from PyPI, which `make python` makes: run.sh leaves it out, CTest skips it without one.
suite(python LABELS python slow pypi SECONDS 900 COMMAND ${PROJECT_SOURCE_DIR}/python/test.sh ${PROJECT_BINARY_DIR} made)

file(STRINGS ${HERE}/golden/ready.txt GOLDEN)
list(TRANSFORM GOLDEN PREPEND ${HERE}/golden/)
suite(golden LABELS conform COMMAND @fedloom verify ${GOLDEN})
