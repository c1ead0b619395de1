package tensmith

// The bits of the C API, on the cases in the folder TENSMITH_CASES (tests/bindings/drawn_cases.py makes them).

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

func folder(t *testing.T, name string) string {
	t.Helper()
	cases := os.Getenv("TENSMITH_CASES")
	if cases == "" {
		t.Fatal("TENSMITH_CASES names the folder of the cases: tests/bindings/drawn_cases.py makes it")
	}
	return filepath.Join(cases, name)
}

func open(t *testing.T, name string) (*Module, *Session) {
	t.Helper()
	module, err := Load(filepath.Join(folder(t, name), "module.so"))
	if err != nil {
		t.Fatal(err)
	}
	session, err := NewSession(module, Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close(); module.Close() })
	return module, session
}

type stored struct {
	name, dataType string
	shape          []int64
	bytes          []byte
}

func read(t *testing.T, name, kind string) (result []stored) {
	t.Helper()
	list, err := os.ReadFile(filepath.Join(folder(t, name), "case.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(list)), "\n") {
		words := strings.Split(line, " ")
		if words[0] != kind {
			continue
		}
		shape := []int64{}
		for _, size := range strings.Split(words[3], ",") {
			if size != "-" {
				n, _ := strconv.ParseInt(size, 10, 64)
				shape = append(shape, n)
			}
		}
		data, err := os.ReadFile(filepath.Join(folder(t, name), words[4]))
		if err != nil {
			t.Fatal(err)
		}
		result = append(result, stored{words[1], words[2], shape, data})
	}
	return result
}

// tensor is on memory that is aligned for any type.
func tensor(t *testing.T, from stored, dataType DataType) *Tensor {
	t.Helper()
	aligned := make([]uint64, (len(from.bytes)+7)/8)
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(aligned))), len(from.bytes))
	copy(data, from.bytes)
	result, err := NewTensorOfBytes(dataType, from.shape, data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(result.Close)
	return result
}

func inputs(t *testing.T, name string, module *Module) (result []*Tensor) {
	for i, from := range read(t, name, "input") {
		result = append(result, tensor(t, from, module.Inputs()[i].DataType))
	}
	return result
}

func TestGivesTheBitsOfC(t *testing.T) {
	for _, name := range []string{"pictures", "rows", "words"} {
		module, session := open(t, name)
		outputs, err := session.Run(inputs(t, name, module)...)
		if err != nil {
			t.Fatal(err)
		}
		expected := read(t, name, "output")
		if len(outputs) != len(expected) {
			t.Fatalf("%s: %d outputs", name, len(outputs))
		}
		for i, output := range outputs {
			found, err := output.Bytes()
			if err != nil || !bytes.Equal(found, expected[i].bytes) || !reflect.DeepEqual(output.Shape(), expected[i].shape) ||
				output.DataType().String() != expected[i].dataType || module.Outputs()[i].Name != expected[i].name {
				t.Errorf("%s: output %d is another: %v%v, %v", name, i, output.DataType(), output.Shape(), err)
			}
			output.Close()
		}
	}
}

func TestListsInputsAndOutputs(t *testing.T) {
	module, _ := open(t, "words")
	in, out := module.Inputs(), module.Outputs()
	if len(in) != 2 || in[0].Name != "words" || in[0].DataType != I64 || in[0].Symbols[0] != "length" || in[0].Shape[0] != Open {
		t.Errorf("%+v", in)
	}
	if !in[1].Ranked || len(in[1].Shape) != 0 {
		t.Errorf("%+v", in[1])
	}
	if !reflect.DeepEqual(out[0].Shape, []int64{Open, 12}) || !reflect.DeepEqual(out[0].Symbols, []string{"length", ""}) {
		t.Errorf("%+v", out[0])
	}
	if text, err := module.Describe(); err != nil || text[0] != '{' {
		t.Error(text, err)
	}
}

func TestOneModuleServesAllSizes(t *testing.T) {
	_, session := open(t, "rows")
	for _, n := range []int64{0, 1, 3, 200} {
		x, err := NewTensor([]int64{n, 16}, make([]float32, n*16))
		if err != nil {
			t.Fatal(err)
		}
		y, err := session.Run(x)
		if err != nil {
			t.Fatal(err)
		}
		values, err := Data[float32](y[0])
		if err != nil || !reflect.DeepEqual(y[0].Shape(), []int64{n, 32}) || int64(len(values)) != n*32 {
			t.Fatal(n, y[0].Shape(), len(values), err)
		}
		for _, value := range values {
			if math.Abs(float64(value)-1.0/32) > 1e-6 {
				t.Fatal(value)
			}
		}
		x.Close()
		y[0].Close()
	}
}

func TestNeitherInputsNorOutputsAreCopied(t *testing.T) {
	_, session := open(t, "rows")
	values, written := make([]float32, 2*16), make([]float32, 2*32)
	x, _ := NewTensor([]int64{2, 16}, values)
	y, _ := NewTensor([]int64{2, 32}, written)
	defer x.Close()
	defer y.Close()
	if seen, _ := Data[float32](x); &seen[0] != &values[0] {
		t.Error("the tensor does not lie on the slice")
	}
	if err := session.RunInto([]*Tensor{x}, []*Tensor{y}); err != nil {
		t.Fatal(err)
	}
	if written[0] != 1.0/32 {
		t.Error(written)
	}
}

// A second hold would wait for a Close that waits for the first.
func TestATensorThatIsInputAndOutputIsHeldOnce(t *testing.T) {
	x, err := NewTensor([]int64{2}, []float32{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	_, unlock, err := hold([]*Tensor{x, x}, []*Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	x.mutex.RUnlock() // instead of unlock
	if !x.mutex.TryLock() {
		t.Fatal("the tensor is held more than once")
	}
	x.mutex.Unlock()
	x.mutex.RLock()
	unlock()
	x.Close()
}

func TestAnOutputThatIsAnInputHasMemoryOfItsOwn(t *testing.T) {
	_, session := open(t, "words")
	words := []int64{3, 1, 4}
	w, _ := NewTensor([]int64{3}, words)
	scale, _ := NewTensor([]int64{}, []float32{1})
	outputs, err := session.Run(w, scale)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	words[0] = 7
	if same, _ := Data[int64](outputs[3]); !reflect.DeepEqual(same, []int64{3, 1, 4}) {
		t.Error(same)
	}
}

func TestSessionsRunOnSeveralGoroutines(t *testing.T) {
	module, session := open(t, "pictures")
	x, expected := inputs(t, "pictures", module), read(t, "pictures", "output")[0].bytes
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			outputs, err := session.Run(x...)
			if err != nil {
				t.Error(err)
				return
			}
			if found, _ := outputs[0].Bytes(); !bytes.Equal(found, expected) {
				t.Error("other bits")
			}
			outputs[0].Close()
		}()
	}
	group.Wait()
}

func TestFailuresAreErrorsInWords(t *testing.T) {
	is := func(err error, code Code, text string) {
		t.Helper()
		var failure *Error
		if !errors.As(err, &failure) || failure.Code != code || !strings.Contains(err.Error(), text) {
			t.Errorf("%v", err)
		}
	}
	_, err := Load("/no/such/module.so")
	is(err, IOError, "/no/such/module.so")
	_, err = LoadBytes([]byte("not a module"))
	is(err, InvalidModule, "")
	_, err = LoadBytes(nil)
	is(err, InvalidModule, "")
	_, err = NewTensor([]int64{2, 3}, make([]float32, 5))
	is(err, InvalidArgument, "6 elements")
	_, err = NewTensor([]int64{-1}, make([]float32, 5))
	is(err, InvalidArgument, "shape")
	_, err = NewTensor([]int64{1 << 62, 4}, make([]float32, 0))
	is(err, InvalidArgument, "shape")

	_, session := open(t, "rows")
	narrow, _ := NewTensor([]int64{2, 15}, make([]float32, 30))
	_, err = session.Run(narrow)
	is(err, InvalidArgument, "x")
	_, err = session.Run()
	is(err, InvalidArgument, "")
	_, err = session.Run(nil)
	is(err, InvalidArgument, "nil")
	_, err = Data[int32](narrow)
	is(err, InvalidArgument, "f32")
	is(session.RunInto([]*Tensor{narrow}, nil), InvalidArgument, "1 outputs")
}

func TestWhatIsClosedIsRefused(t *testing.T) {
	module, session := open(t, "rows")
	x, _ := NewTensor([]int64{1, 16}, make([]float32, 16))
	x.Close()
	x.Close()
	if _, err := session.Run(x); err != ErrClosed {
		t.Error(err)
	}
	if _, err := Data[float32](x); err != ErrClosed || x.Shape() != nil || x.DataType() != 0 {
		t.Error(err)
	}
	module.Close()
	if _, err := NewSession(module, Options{}); err != ErrClosed {
		t.Error(err)
	}
	y, _ := NewTensor([]int64{1, 16}, make([]float32, 16))
	defer y.Close()
	if _, err := session.Run(y); err != nil { // goes on without its module
		t.Error(err)
	}
	session.Close()
	if _, err := session.Run(y); err != ErrClosed {
		t.Error(err)
	}
}
