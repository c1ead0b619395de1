package tensmith

// #include <tensmith/tensmith.h>
import "C"

import (
	"math"
	"runtime"
	"sync"
	"unsafe"
)

// DataType is a type of elements, numbered as ONNX numbers them.
type DataType int

const (
	F32    DataType = C.TS_F32
	U8     DataType = C.TS_U8
	I8     DataType = C.TS_I8
	U16    DataType = C.TS_U16
	I16    DataType = C.TS_I16
	I32    DataType = C.TS_I32
	I64    DataType = C.TS_I64
	String DataType = C.TS_STRING
	Bool   DataType = C.TS_BOOL
	F16    DataType = C.TS_F16
	F64    DataType = C.TS_F64
	U32    DataType = C.TS_U32
	U64    DataType = C.TS_U64
	BF16   DataType = C.TS_BF16
)

// String gives the name, as "f32".
func (t DataType) String() string { return C.GoString(C.ts_type_name(C.ts_type(t))) }

// Bytes of one element; 0 of strings.
func (t DataType) Bytes() int { return int(C.ts_type_bytes(C.ts_type(t))) }

// Element is a Go type whose slices are tensors. Elements of other types, bool among them, are reached by Bytes.
type Element interface {
	float32 | float64 | int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64
}

// TypeOf gives the type of elements that a Go type stands for.
func TypeOf[T Element]() DataType {
	var element T
	switch any(element).(type) {
	case float32:
		return F32
	case float64:
		return F64
	case int8:
		return I8
	case uint8:
		return U8
	case int16:
		return I16
	case uint16:
		return U16
	case int32:
		return I32
	case uint32:
		return U32
	case int64:
		return I64
	default:
		return U64
	}
}

// Tensor is a type of elements, a shape, and row-major elements: in a slice of the caller's, which stays pinned until
// Close, or in memory of the library's. Its elements must not be written while a run reads them.
type Tensor struct {
	mutex  sync.RWMutex // held for reading while the handle is in use
	handle *C.ts_tensor // nil once closed
	pinner runtime.Pinner
}

// NewTensor makes a tensor on the slice, without a copy. Run writes its results there where RunInto is given the tensor.
func NewTensor[T Element](shape []int64, data []T) (*Tensor, error) {
	expected, err := elementCount(shape)
	if err != nil {
		return nil, err
	}
	if expected != len(data) {
		return nil, invalid("the shape %v has %d elements, but the slice has %d", shape, expected, len(data))
	}
	return borrow(TypeOf[T](), shape, unsafe.Pointer(unsafe.SliceData(data)), len(data))
}

// NewTensorOfBytes does the same for elements of any type but strings: the bytes must be aligned as the elements are.
func NewTensorOfBytes(dataType DataType, shape []int64, data []byte) (*Tensor, error) {
	expected, err := elementCount(shape)
	if err != nil {
		return nil, err
	}
	size := dataType.Bytes()
	if size == 0 || len(data)%size != 0 || len(data)/size != expected {
		return nil, invalid("%d bytes are no %v%v", len(data), dataType, shape)
	}
	pointer := unsafe.Pointer(unsafe.SliceData(data))
	if uintptr(pointer)%uintptr(min(size, 8)) != 0 {
		return nil, invalid("the bytes of a tensor of %v must be aligned", dataType)
	}
	return borrow(dataType, shape, pointer, len(data))
}

func borrow(dataType DataType, shape []int64, data unsafe.Pointer, length int) (*Tensor, error) {
	tensor := &Tensor{}
	if length > 0 { // a pinned pointer may stay with C between calls
		tensor.pinner.Pin(data)
	} else {
		data = nil
	}
	err := check(C.ts_tensor_borrow(C.ts_type(dataType), dims(shape), C.size_t(len(shape)), data, nil, nil, &tensor.handle))
	if err != nil {
		tensor.pinner.Unpin()
		return nil, err
	}
	return tensor, nil
}

func dims(shape []int64) *C.int64_t { return (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(shape))) }

func elementCount(shape []int64) (int, error) {
	count := int64(1)
	for _, size := range shape {
		if size < 0 || (size > 0 && count > math.MaxInt64/size) {
			return 0, invalid("no tensor can have the shape %v", shape)
		}
		count *= size
	}
	return int(count), nil
}

// Close frees the tensor. Slices that Data and Bytes gave of the library's memory are no good any more.
func (t *Tensor) Close() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	C.ts_tensor_free(t.handle)
	t.handle = nil
	t.pinner.Unpin()
}

// DataType of the elements; 0 once closed.
func (t *Tensor) DataType() DataType {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	if t.handle == nil {
		return 0
	}
	return DataType(C.ts_tensor_type(t.handle))
}

// Shape gives a copy of the sizes; nil once closed.
func (t *Tensor) Shape() []int64 {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	if t.handle == nil {
		return nil
	}
	shape := make([]int64, int(C.ts_tensor_rank(t.handle)))
	if len(shape) > 0 {
		copy(shape, unsafe.Slice((*int64)(unsafe.Pointer(C.ts_tensor_shape(t.handle))), len(shape)))
	}
	return shape
}

// Data gives the elements without a copy, good until the tensor is closed. Elements of another type are an error.
func Data[T Element](t *Tensor) ([]T, error) {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	if t.handle == nil {
		return nil, ErrClosed
	}
	if found := DataType(C.ts_tensor_type(t.handle)); found != TypeOf[T]() {
		return nil, invalid("the tensor's elements are %v, not %v", found, TypeOf[T]())
	}
	return unsafe.Slice((*T)(C.ts_tensor_data(t.handle)), elements(t.handle)), nil
}

// Bytes gives the elements' bytes without a copy, whatever their type. A bool is one byte, 0 or 1.
func (t *Tensor) Bytes() ([]byte, error) {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	if t.handle == nil {
		return nil, ErrClosed
	}
	size := int(C.ts_type_bytes(C.ts_tensor_type(t.handle)))
	return unsafe.Slice((*byte)(C.ts_tensor_data(t.handle)), elements(t.handle)*size), nil
}

// elements is 0 where there is no memory, which unsafe.Slice takes for nil.
func elements(handle *C.ts_tensor) int {
	if C.ts_tensor_data(handle) == nil {
		return 0
	}
	return int(C.ts_tensor_size(handle))
}
