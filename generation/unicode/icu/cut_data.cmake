# A libicudata of a few items: takes them out of the system's, and links them under the name that ICU's code asks for.
#
# cmake -DPROGRAM=icupkg -DOBJCOPY=... -DALL=libicudata.so -DDATA=.../icudt72l.dat -DCOMPILER=... -DVERSION=72 -DLIBRARY=... -P this
#
# Names of the package and of the symbol are ICU's own: code of version 72 looks for `icudt72_dat`, and in it for "icudt72l/...".
set(items nfkc.nrm unames.icu uemoji.icu ulayout.icu brkitr/root.res brkitr/char.brk)

get_filename_component(folder ${DATA} DIRECTORY)
get_filename_component(name ${DATA} NAME)
get_filename_component(target ${LIBRARY} DIRECTORY)
get_filename_component(soname ${LIBRARY} NAME)
file(MAKE_DIRECTORY ${folder}/all ${folder}/items ${target})

function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${folder} OUTPUT_QUIET ERROR_VARIABLE said RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "ICU's data can't be cut: ${ARGN}: ${said}")
  endif()
endfunction()

run(${OBJCOPY} -O binary -j .rodata ${ALL} all/${name})
foreach(item ${items})
  run(${PROGRAM} -d items -x ${item} all/${name})
endforeach()
list(JOIN items "\n" lines)
file(WRITE ${folder}/items.txt "${lines}\n")
# Clusters' rules stand beside those of words and lines in one file, which names theirs; they are never opened.
run(${PROGRAM} --ignore-deps -s items -a items.txt new ${name})
file(REMOVE_RECURSE ${folder}/all ${folder}/items)
file(WRITE ${folder}/data.S ".section .rodata
.balign 16
.globl icudt${VERSION}_dat
.type icudt${VERSION}_dat, @object
icudt${VERSION}_dat:
.incbin \"${DATA}\"
.size icudt${VERSION}_dat, . - icudt${VERSION}_dat
.section .note.GNU-stack, \"\", @progbits
")
run(${COMPILER} -shared -nostdlib -Wl,-soname,${soname} data.S -o ${LIBRARY})
