package pass

import "fmt"

// Order is the order of stages.
type Order struct {
	names []string
	// now is the place of the stage that runs; before any when none does.
	now      int
	mistakes []string
}

const (
	// none: no stage runs.
	none = -1
	// maxMistakes bounds what is kept of mistakes.
	maxMistakes = 8
)

// NewOrder declares the stages, in the order in which they run.
func NewOrder(names ...string) *Order { return &Order{names: names, now: none} }

// Stage is one place in an Order.
type Stage struct {
	order *Order
	place int
}

// Stage finds a stage by its name. One that is not declared is a mistake of the program, and panics.
func (o *Order) Stage(name string) Stage {
	for place, declared := range o.names {
		if declared == name {
			return Stage{o, place}
		}
	}
	panic(fmt.Sprintf("stage %q is not declared", name))
}

// Names are the stages, in their order.
func (o *Order) Names() []string { return o.names }

// Run runs the steps of a pass: one for each stage, in their order.
func (o *Order) Run(steps map[string]func()) {
	defer func() { o.now = none }()
	for place, name := range o.names {
		o.now = place
		steps[name]()
	}
}

// over reports whether the stage has run in this pass.
func (s Stage) over() bool { return s.order.now > s.place }

// name is the stage's.
func (s Stage) name() string { return s.order.names[s.place] }

// wrong tells of a mistake.
func (o *Order) wrong(format string, args ...any) {
	if len(o.mistakes) < maxMistakes {
		o.mistakes = append(o.mistakes, fmt.Sprintf(format, args...))
	}
}

// Mistakes are what was done that the order does not allow, the first of them. A test that finds any fails.
func (o *Order) Mistakes() []string { return o.mistakes }
