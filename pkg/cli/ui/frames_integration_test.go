//go:build integration

package ui

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// moving has the map moved for a second, and counts frames: as when a user drags it, or as when a program moves it.
const moving = `(settings) => new Promise((done) => {
	const cy = document.getElementById("graph").cy, r = cy.renderer();
	r.textureOnViewport = settings.texture; r.hideEdgesOnViewport = settings.hide;
	if (settings.whole) { cy.fit(undefined, 20); } else { cy.zoom(1); cy.pan({x: 0, y: 0}); }
	let drawn = 0;
	const count = () => { drawn++; };
	cy.on("render", count);
	let n = 0, began = 0;
	r.hoverData.dragging = settings.drag;
	const step = (now) => {
		began = began || now;
		if (now - began > 1000) {
			r.hoverData.dragging = false;
			r.textureOnViewport = true; r.hideEdgesOnViewport = false; cy.off("render", count);
			done({frames: 1000 * n / (now - began), drawn});
			return;
		}
		n++;
		cy.panBy({x: n % 40 < 20 ? 8 : -8, y: 3});
		requestAnimationFrame(step);
	};
	requestAnimationFrame(step);
})`

// TestFrames moves a map of a thousand Networks, folded, each for itself, and with the flows of each, and says how many frames a
// second this machine draws, without a graphics card: as it is set, and by the other ways of cytoscape, by turns. What is bounded
// is what there is to be drawn, by TestTheGraphOfAThousandNetworks and TestFlowsOfAThousandNetworks.
func TestFrames(t *testing.T) {
	c := thousand()
	b := openTab(t, c)
	ways := []struct{ name, settings string }{
		{"as a picture, which is how it is set", "{drag: true, texture: true, hide: false}"},
		{"drawn each time", "{drag: true, texture: false, hide: false}"},
		{"drawn without edges", "{drag: true, texture: false, hide: true}"},
		{"by a program", "{drag: false, texture: true, hide: false}"},
		{"the whole as a picture", "{drag: true, texture: true, hide: false, whole: true}"},
		{"the whole drawn each time", "{drag: true, texture: false, hide: false, whole: true}"},
	}
	measure := func(what string) {
		t.Helper()
		const rounds = 3
		seen := make([][]float64, len(ways))
		for range rounds {
			for i, w := range ways {
				out := evaluated[struct {
					Frames float64
					Drawn  int
				}](b, "("+moving+")("+w.settings+")")
				if out.Frames <= 0 || out.Drawn == 0 {
					t.Errorf("%s, %s: nothing is drawn: %+v", what, w.name, out)
				}
				seen[i] = append(seen[i], out.Frames)
			}
		}
		var words []string
		for i, w := range ways {
			slices.Sort(seen[i])
			words = append(words, fmt.Sprintf("%.0f %s", seen[i][rounds/2], w.name))
		}
		t.Attr("frames-a-second", what+": "+strings.Join(words, "; "))
	}
	b.picture("thousand")
	measure("folded")
	b.do("show each", chromedp.Click("#all"))
	b.until("each is there", `document.getElementById("graph").cy.nodes("[kind='network']").length === 1000`)
	measure("each of 1000 Networks")
	c.mu.Lock()
	c.flowsAt = crowd(c.networks)
	c.mu.Unlock()
	drawFlows := time.Now()
	b.until("flows are drawn", fmt.Sprintf(`document.getElementById("graph").cy.edges("[kind='flow']").length === %d`, maxStrokes))
	t.Logf("the flows were there after %s, of which the page waits up to 10s to ask again", time.Since(drawFlows).Round(time.Millisecond))
	measure("with flows of each")
	b.quiet()
}
