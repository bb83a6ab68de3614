package reach

import (
	"strings"
	"testing"
)

func TestPrintNamesWhatIsNotAsExpected(t *testing.T) {
	rows := []Row{
		{Question: "name web", Answers: []Answer{{Got: "10.96.0.5", Want: "10.96.0.5"}, {Got: nothing, Want: "10.96.0.6"}}},
		{Question: "outside", Answers: []Answer{{Got: "answers", Want: "answers"}, {Got: refused, Want: refused}}},
	}
	var b strings.Builder
	if err := Print(&b, []Subject{{Namespace: "red"}, {Namespace: "blue"}}, rows); err != nil {
		t.Fatal(err)
	}
	want := `  from a pod of  red        blue
  name web       10.96.0.5  does not exist * want 10.96.0.6
  outside        answers    not reached

3 of 4 answers as expected
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	if Failures(rows) != 1 {
		t.Errorf("%d failures, want 1", Failures(rows))
	}
}
