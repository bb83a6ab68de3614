package ui

import (
	"embed"
	"net/http"
	"path"
)

// staticFiles are the styles, our script, and those of others with their licences; vendor.json says whose they are.
//
//go:embed static
var staticFiles embed.FS

// contentTypes of the files that are served; no others are.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".LICENSE": "text/plain; charset=utf-8",
}

func serveStatic(w http.ResponseWriter, r *http.Request) {
	name := path.Clean("/" + r.URL.Path)
	kind := contentTypes[path.Ext(name)]
	text, err := staticFiles.ReadFile("static" + name)
	if err != nil || kind == "" {
		http.NotFound(w, r)
		return
	}
	// They are as long as the program runs. Another one has another cookie, and asks again.
	w.Header().Set("Cache-Control", "private, max-age=600")
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(text) //nolint:gosec // G705: it is a file of the program, and who has gone does not read it
}
