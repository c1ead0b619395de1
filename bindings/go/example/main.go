// Runs a module on zeros: `go run ./example MODULE.so [SIZE]`. Open sizes are SIZE, or 1.
package main

import (
	"fmt"
	"os"
	"strconv"

	"tensmith"
)

func zeros(port tensmith.Port, open int64) (*tensmith.Tensor, error) {
	shape, count := make([]int64, len(port.Shape)), int64(1)
	for i, size := range port.Shape {
		if size == tensmith.Open {
			size = open
		}
		shape[i], count = size, count*size
	}
	return tensmith.NewTensorOfBytes(port.DataType, shape, make([]byte, count*int64(port.DataType.Bytes())))
}

func run(path string, open int64) error {
	module, err := tensmith.Load(path)
	if err != nil {
		return err
	}
	defer module.Close()
	session, err := tensmith.NewSession(module, tensmith.Options{})
	if err != nil {
		return err
	}
	defer session.Close()
	var inputs []*tensmith.Tensor
	for _, port := range module.Inputs() {
		input, err := zeros(port, open)
		if err != nil {
			return err
		}
		defer input.Close()
		inputs = append(inputs, input)
	}
	outputs, err := session.Run(inputs...)
	if err != nil {
		return err
	}
	for i, port := range module.Outputs() {
		fmt.Printf("%s: %v%v\n", port.Name, outputs[i].DataType(), outputs[i].Shape())
		outputs[i].Close()
	}
	return nil
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: example MODULE.so [SIZE]")
		os.Exit(2)
	}
	open := int64(1)
	if len(os.Args) > 2 {
		if size, err := strconv.ParseInt(os.Args[2], 10, 64); err == nil {
			open = size
		}
	}
	if err := run(os.Args[1], open); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
