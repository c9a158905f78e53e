/* The same in a program that has a handler for SIGSEGV from the beginning, which is never called. */
#define HANDLED
#include "faults.c"
