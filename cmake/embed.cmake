# Text files as C arrays, so that the program needs no files at run time. Two roles:
#   include(cmake/embed.cmake), then embed_text(TARGET FILE SYMBOL): adds `const char SYMBOL[]`, terminated, to TARGET;
#   cmake -DIN=... -DOUT=... -DSYMBOL=... -P embed.cmake: the step that the build runs for it.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${IN} bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  file(WRITE ${OUT} "extern const char ${SYMBOL}[];\nconst char ${SYMBOL}[] = {\n${bytes}0};\n")
  return()
endif()

set(EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(embed_text target file symbol)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embed/${symbol}.c)
  add_custom_command(OUTPUT ${out} DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file} ${EMBED_SCRIPT} VERBATIM
                     COMMAND ${CMAKE_COMMAND} -DIN=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DOUT=${out} -DSYMBOL=${symbol}
                             -P ${EMBED_SCRIPT})
  target_sources(${target} PRIVATE ${out})
endfunction()
