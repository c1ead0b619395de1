// Package tensmith loads and runs modules that Tensmith has compiled from neural networks, through the C API of
// libtensmith_runtime.
//
//	module, err := tensmith.Load("model.so") // native code: only from whom you trust
//	session, err := tensmith.NewSession(module, tensmith.Options{})
//	x, err := tensmith.NewTensor([]int64{1, 3, 224, 224}, picture) // on the slice, without a copy
//	results, err := session.Run(x)
//	scores, err := tensmith.Data[float32](results[0]) // without a copy
//
// Everything that has a Close is to be closed; nothing is freed behind the caller's back, so that a slice of a tensor's
// elements is good until that tensor is closed. Use after Close is an error, not a crash. The package gives and takes
// tensors of numbers.
package tensmith
