/* Error numbers of SCPI-99, volume 2, chapter 21. */
#ifndef SCPI_CODES_H
#define SCPI_CODES_H

#define SCPI_ERRORS(X)                                            \
    X(SCPI_NO_ERROR, 0, "No error")                               \
    X(SCPI_INVALID_CHARACTER, -101, "Invalid character")          \
    X(SCPI_SYNTAX_ERROR, -102, "Syntax error")                    \
    X(SCPI_INVALID_SEPARATOR, -103, "Invalid separator")          \
    X(SCPI_DATA_TYPE, -104, "Data type error")                    \
    X(SCPI_PARAMETER_NOT_ALLOWED, -108, "Parameter not allowed")  \
    X(SCPI_MISSING_PARAMETER, -109, "Missing parameter")          \
    X(SCPI_HEADER_SEPARATOR, -111, "Header separator error")      \
    X(SCPI_MNEMONIC_TOO_LONG, -112, "Program mnemonic too long")  \
    X(SCPI_UNDEFINED_HEADER, -113, "Undefined header")            \
    X(SCPI_HEADER_SUFFIX, -114, "Header suffix out of range")     \
    X(SCPI_INVALID_NUMBER, -121, "Invalid character in number")   \
    X(SCPI_EXPONENT_TOO_LARGE, -123, "Exponent too large")        \
    X(SCPI_TOO_MANY_DIGITS, -124, "Too many digits")              \
    X(SCPI_INVALID_SUFFIX, -131, "Invalid suffix")                \
    X(SCPI_SUFFIX_TOO_LONG, -134, "Suffix too long")              \
    X(SCPI_SUFFIX_NOT_ALLOWED, -138, "Suffix not allowed")        \
    X(SCPI_WORD_TOO_LONG, -144, "Character data too long")        \
    X(SCPI_INVALID_STRING, -151, "Invalid string data")           \
    X(SCPI_BLOCK_NOT_ALLOWED, -168, "Block data not allowed")     \
    X(SCPI_INVALID_EXPRESSION, -171, "Invalid expression")        \
    X(SCPI_EXECUTION_ERROR, -200, "Execution error")              \
    X(SCPI_TRIGGER_IGNORED, -211, "Trigger ignored")              \
    X(SCPI_INIT_IGNORED, -213, "Init ignored")                    \
    X(SCPI_SETTINGS_CONFLICT, -221, "Settings conflict")          \
    X(SCPI_OUT_OF_RANGE, -222, "Data out of range")               \
    X(SCPI_ILLEGAL_VALUE, -224, "Illegal parameter value")        \
    X(SCPI_STALE, -230, "Data corrupt or stale")                  \
    X(SCPI_HARDWARE_ERROR, -240, "Hardware error")                \
    X(SCPI_HARDWARE_MISSING, -241, "Hardware missing")            \
    X(SCPI_SYSTEM_ERROR, -310, "System error")                    \
    X(SCPI_MEMORY_ERROR, -311, "Memory error")                    \
    X(SCPI_CALIBRATION_LOST, -313, "Calibration memory lost")     \
    X(SCPI_MEMORY_LOST, -314, "Save/recall memory lost")          \
    X(SCPI_STORAGE_FAULT, -320, "Storage fault")                  \
    X(SCPI_SELF_TEST_FAILED, -330, "Self-test failed")            \
    X(SCPI_CALIBRATION_FAILED, -340, "Calibration failed")        \
    X(SCPI_QUEUE_OVERFLOW, -350, "Queue overflow")                \
    X(SCPI_INPUT_OVERRUN, -363, "Input buffer overrun")           \
    X(SCPI_TIME_OUT, -365, "Time out error")

#define SCPI_ERROR_NAME(name, number, text) name = number,
enum scpi_error { SCPI_ERRORS(SCPI_ERROR_NAME) };
#undef SCPI_ERROR_NAME

#endif
