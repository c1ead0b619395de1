package tensmith

// #include <tensmith/tensmith.h>
import "C"

import (
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// Options of a session. The zero value: all processors that the process may use, the limits of the library.
type Options struct {
	Threads     int           // 0: as many as processors
	CheckFinite bool          // a run fails where a NaN or an infinity comes up, and says where
	MemoryLimit int64         // bytes that runs may hold at a time; 0: the machine's
	TimeLimit   time.Duration // of one run; 0: an hour
	Seed        *uint64       // of random operators that have none of their own
}

// Session is a module ready to run. Several goroutines may run it at the same time.
type Session struct {
	mutex   sync.RWMutex
	handle  *C.ts_session
	outputs int
}

// NewSession makes a session of the module.
func NewSession(module *Module, options Options) (*Session, error) {
	module.mutex.RLock()
	defer module.mutex.RUnlock()
	if module.handle == nil {
		return nil, ErrClosed
	}
	for _, ports := range [][]Port{module.inputs, module.outputs} {
		for _, port := range ports {
			if !port.isTensor {
				return nil, &Error{Unsupported, "'" + port.Name +
					"' is a sequence, a map, an optional value or of strings: use the C API for this module"}
			}
		}
	}
	var settings C.ts_session_options
	settings.size = C.size_t(unsafe.Sizeof(settings))
	settings.threads = C.int(options.Threads)
	if options.CheckFinite {
		settings.check_finite = 1
	}
	settings.memory_limit = C.int64_t(options.MemoryLimit)
	settings.time_limit = C.double(options.TimeLimit.Seconds())
	var pinner runtime.Pinner
	defer pinner.Unpin()
	if options.Seed != nil {
		pinner.Pin(options.Seed)
		settings.seed = (*C.uint64_t)(unsafe.Pointer(options.Seed))
	}
	session := &Session{outputs: len(module.outputs)}
	if err := check(C.ts_session_create(module.handle, &settings, &session.handle)); err != nil {
		return nil, err
	}
	return session, nil
}

// Threads that the session runs on.
func (s *Session) Threads() int {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	if s.handle == nil {
		return 0
	}
	return int(C.ts_session_threads(s.handle))
}

// Run runs once: a tensor for each input, in order, gives one for each output, which the caller closes.
func (s *Session) Run(inputs ...*Tensor) ([]*Tensor, error) {
	handles := make([]*C.ts_tensor, s.outputs)
	if err := s.run(inputs, nil, handles); err != nil {
		return nil, err
	}
	outputs := make([]*Tensor, len(handles))
	for i, handle := range handles {
		outputs[i] = &Tensor{handle: handle}
	}
	return outputs, nil
}

// RunInto runs once and writes the results into the outputs, whose types and shapes must be those of the results.
func (s *Session) RunInto(inputs, outputs []*Tensor) error {
	if len(outputs) != s.outputs {
		return invalid("the module has %d outputs, but %d tensors were given for them", s.outputs, len(outputs))
	}
	return s.run(inputs, outputs, make([]*C.ts_tensor, len(outputs)))
}

// run holds all that it uses open; `results` are the handles of `outputs`, or null.
func (s *Session) run(inputs, outputs []*Tensor, results []*C.ts_tensor) error {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	if s.handle == nil {
		return ErrClosed
	}
	handles, unlock, err := hold(inputs, outputs)
	defer unlock()
	if err != nil {
		return err
	}
	given := handles[:len(inputs)]
	copy(results, handles[len(inputs):])
	return check(C.ts_session_run(s.handle, unsafe.SliceData(given), C.size_t(len(given)),
		unsafe.SliceData(results), C.size_t(len(results))))
}

// hold keeps the tensors from being closed until the function that it gives is called; handles are the inputs', then the
// outputs'. A tensor that is there twice, in one list or in both, is held once: a lock that is taken again may wait for a
// Close that waits for the first.
func hold(inputs, outputs []*Tensor) ([]*C.ts_tensor, func(), error) {
	handles := make([]*C.ts_tensor, 0, len(inputs)+len(outputs))
	held := map[*Tensor]bool{}
	unlock := func() {
		for tensor := range held {
			tensor.mutex.RUnlock()
		}
	}
	for _, tensors := range [][]*Tensor{inputs, outputs} {
		for i, tensor := range tensors {
			if tensor == nil {
				return nil, unlock, invalid("tensor %d is nil", i)
			}
			if !held[tensor] {
				tensor.mutex.RLock()
				held[tensor] = true
			}
			if tensor.handle == nil {
				return nil, unlock, ErrClosed
			}
			handles = append(handles, tensor.handle)
		}
	}
	return handles, unlock, nil
}

// Close frees the session once no run is going on.
func (s *Session) Close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	C.ts_session_free(s.handle)
	s.handle = nil
}
