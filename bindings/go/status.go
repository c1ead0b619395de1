package tensmith

// #cgo LDFLAGS: -ltensmith_runtime
// #include <tensmith/tensmith.h>
import "C"

import (
	"errors"
	"fmt"
)

// Code says what kind of failure an Error is.
type Code int

const (
	InvalidArgument   Code = C.TS_INVALID_ARGUMENT
	InvalidModel      Code = C.TS_INVALID_MODEL
	InvalidModule     Code = C.TS_INVALID_MODULE
	Unsupported       Code = C.TS_UNSUPPORTED
	ResourceExhausted Code = C.TS_RESOURCE_EXHAUSTED
	IOError           Code = C.TS_IO_ERROR
	Internal          Code = C.TS_INTERNAL
)

// Error is a failure of the library; its message says what to do.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return e.Message }

// ErrClosed is what the use of something closed gives.
var ErrClosed = errors.New("tensmith: it has been closed")

// Version of the library in use, as "0.1.0".
func Version() string { return C.GoString(C.ts_version()) }

// check takes the status over and frees it.
func check(status *C.ts_status) error {
	if status == nil {
		return nil
	}
	defer C.ts_status_free(status)
	return &Error{Code(C.ts_status_get_code(status)), C.GoString(C.ts_status_message(status))}
}

func invalid(format string, arguments ...any) error {
	return &Error{InvalidArgument, fmt.Sprintf(format, arguments...)}
}
