package model

import "testing"

func TestNearest(t *testing.T) {
	networks := []string{"blue", "default", "red", "shop-back", "shop-front"}
	for written, want := range map[string]string{
		"rde":          "red",
		"re":           "red",
		"blu":          "blue",
		"defualt":      "default",
		"shop-fornt":   "shop-front",
		"shop_back":    "shop-back",
		"shopfront":    "shop-front",
		"r":            "",
		"green":        "",
		"x":            "",
		"":             "",
		"a-long-way-t": "",
	} {
		if got := Nearest(written, networks); got != want {
			t.Errorf("nearest to %q is %q, want %q", written, got, want)
		}
	}
	if got := Nearest("red", []string{"red"}); got != "" {
		t.Errorf("the name itself is not a nearer one, got %q", got)
	}
	if got := Nearest("ab", []string{"aa", "bb"}); got != "aa" {
		t.Errorf("of two at the same distance %q, want the first", got)
	}
}

func FuzzNearest(f *testing.F) {
	f.Add("rde", "red")
	f.Add("", "a")
	f.Fuzz(func(t *testing.T, a, b string) {
		limit := max(len(a), len(b)) + 1
		if there, back := distance(a, b, limit), distance(b, a, limit); there != back {
			t.Errorf("%q to %q is %d, and back %d", a, b, there, back)
		}
	})
}
