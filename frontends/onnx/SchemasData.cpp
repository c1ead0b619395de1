// The operators' schemas, written by generate_schemas.py, as bytes of the program.
//
// The assembler includes the file as it is: a megabyte as an array's initialiser takes a compiler
// seconds and a gigabyte.
extern "C" const unsigned char tensmithOnnxSchemas[];
extern "C" const unsigned char tensmithOnnxSchemasEnd[];

asm(".section .rodata\n"
    ".balign 16\n"
    ".globl tensmithOnnxSchemas\n"
    ".hidden tensmithOnnxSchemas\n"
    "tensmithOnnxSchemas:\n"
    ".incbin \"" TENSMITH_SCHEMAS "\"\n"
    ".globl tensmithOnnxSchemasEnd\n"
    ".hidden tensmithOnnxSchemasEnd\n"
    "tensmithOnnxSchemasEnd:\n"
    ".byte 0\n"
    ".text\n");
