package main

import (
	"bytes"
	"fmt"
	"io"
)

// farewell is what a kernel says that is switched off, however quiet it was told to be.
const farewell = "reboot: Power down"

// console shows the lines that a kernel says about itself, marked as such: among the output of tests they would be
// taken for the tests' own. A kernel that is well says nothing.
type console struct {
	out  io.Writer
	line bytes.Buffer
}

// Write takes any part of a line or of lines.
func (c *console) Write(text []byte) (int, error) {
	for _, b := range text {
		if b != '\n' {
			c.line.WriteByte(b)
			continue
		}
		said := bytes.TrimSpace(c.line.Bytes())
		if len(said) > 0 && string(said) != farewell {
			if _, err := fmt.Fprintf(c.out, "kernel: %s\n", said); err != nil {
				return 0, err
			}
		}
		c.line.Reset()
	}
	return len(text), nil
}
