package tensmith

// #include <stdlib.h>
// #include <tensmith/tensmith.h>
import "C"

import (
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// Open is the size of a dimension that is open; its symbol is in the port's Symbols.
const Open = -1

// Port is an input or an output of a module.
type Port struct {
	Name     string
	DataType DataType
	Ranked   bool     // false: not even the number of dimensions is known
	Shape    []int64  // Open where any size will do that agrees with the others of its symbol
	Symbols  []string // "" where the size is fixed; else a symbol, as "batch", or an expression of symbols
	isTensor bool
}

// Module is what tensmith compile wrote. It may be used by several goroutines at once.
type Module struct {
	mutex           sync.RWMutex
	handle          *C.ts_module
	inputs, outputs []Port
}

// Load reads a module, and checks version, integrity and what it needs of the processor. A module holds native code, which
// a session runs: load modules only from those that you would take a shared library from.
func Load(path string) (*Module, error) {
	if strings.ContainsRune(path, 0) {
		return nil, invalid("the path has a zero byte in it")
	}
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	var handle *C.ts_module
	if err := check(C.ts_module_load(text, nil, &handle)); err != nil {
		return nil, err
	}
	return newModule(handle), nil
}

// LoadBytes does the same of a module in memory, which is copied.
func LoadBytes(data []byte) (*Module, error) {
	var handle *C.ts_module
	if err := check(C.ts_module_load_bytes(unsafe.Pointer(unsafe.SliceData(data)), C.size_t(len(data)), nil, &handle)); err != nil {
		return nil, err
	}
	return newModule(handle), nil
}

func newModule(handle *C.ts_module) *Module {
	module := &Module{handle: handle}
	for i := C.size_t(0); i < C.ts_module_input_count(handle); i++ {
		module.inputs = append(module.inputs, port(C.ts_module_input(handle, i)))
	}
	for i := C.size_t(0); i < C.ts_module_output_count(handle); i++ {
		module.outputs = append(module.outputs, port(C.ts_module_output(handle, i)))
	}
	return module
}

func port(from C.ts_port) Port {
	dataType := DataType(from._type)
	result := Port{Name: C.GoString(from.name), DataType: dataType, Ranked: from.rank >= 0,
		isTensor: from.kind == C.TS_TENSOR && dataType != String}
	if from.rank <= 0 {
		return result
	}
	for _, text := range unsafe.Slice(from.dims, int(from.rank)) {
		dim := C.GoString(text)
		size, err := strconv.ParseInt(dim, 10, 64)
		if err == nil {
			dim = ""
		} else {
			size = Open
		}
		result.Shape, result.Symbols = append(result.Shape, size), append(result.Symbols, dim)
	}
	return result
}

// Inputs lists them in order.
func (m *Module) Inputs() []Port { return m.inputs }

// Outputs lists them in order.
func (m *Module) Outputs() []Port { return m.outputs }

// Describe tells all else that is known of the module, as JSON: producer, target, kernels, memory.
func (m *Module) Describe() (string, error) {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	if m.handle == nil {
		return "", ErrClosed
	}
	var json *C.char
	if err := check(C.ts_module_describe(m.handle, &json)); err != nil {
		return "", err
	}
	defer C.ts_string_free(json)
	return C.GoString(json), nil
}

// Close frees the module; sessions of it go on.
func (m *Module) Close() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	C.ts_module_free(m.handle)
	m.handle = nil
}
