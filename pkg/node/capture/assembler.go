package capture

import (
	"fmt"

	"golang.org/x/net/bpf"
)

// Assembler writes a program for the kernel's classic BPF, with labels. All jumps lead ahead.
type Assembler struct {
	out   []bpf.Instruction
	marks map[string]int
	// jumps lead from an instruction to a label.
	jumps map[int]string
}

// NewAssembler begins a program.
func NewAssembler() *Assembler {
	return &Assembler{marks: map[string]int{}, jumps: map[int]string{}}
}

// Add adds instructions.
func (a *Assembler) Add(all ...bpf.Instruction) { a.out = append(a.out, all...) }

// Mark puts a label before the next instruction.
func (a *Assembler) Mark(label string) { a.marks[label] = len(a.out) }

// Jump jumps to a label.
func (a *Assembler) Jump(label string) {
	a.jumps[len(a.out)] = label
	a.Add(bpf.Jump{})
}

// When jumps if the accumulator compares so with a value.
func (a *Assembler) When(test bpf.JumpTest, value uint32, label string) {
	a.Add(bpf.JumpIf{Cond: test, Val: value, SkipFalse: 1})
	a.Jump(label)
}

// Among jumps if the accumulator is one of some values.
func (a *Assembler) Among(values []uint32, label string) {
	for _, v := range values {
		a.When(bpf.JumpEqual, v, label)
	}
}

// Instructions are what Assemble has made, for a bpf.VM.
func (a *Assembler) Instructions() []bpf.Instruction { return a.out }

// Assemble resolves the labels. Its error is that one is not ahead of who jumps there, or that the program is none.
func (a *Assembler) Assemble() ([]bpf.RawInstruction, error) {
	for i, label := range a.jumps {
		to, there := a.marks[label]
		if !there || to <= i {
			return nil, fmt.Errorf("compile a filter: %s is not ahead", label)
		}
		a.out[i] = bpf.Jump{Skip: uint32(to - i - 1)}
	}
	raw, err := bpf.Assemble(a.out)
	if err != nil {
		return nil, fmt.Errorf("compile a filter: %w", err)
	}
	return raw, nil
}
