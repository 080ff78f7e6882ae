package plan

import (
	"maps"
	"reflect"
	"slices"
)

// sameFrame reports that the configurations differ in nothing but sections that
// were generated from backend records. What a worker was given in text alone
// nobody can change but a reload.
func (c *composition) sameFrame() bool {
	if len(c.from.Sections) != len(c.to.Sections) ||
		!maps.Equal(c.from.Profiles, c.to.Profiles) || !c.sameLists() {
		return false
	}
	for i, was := range c.from.Sections {
		now := c.to.Sections[i]
		if was.Kind != now.Kind || was.Name != now.Name {
			return false
		}
		if was.Kind != SectionBackend {
			if was != now {
				return false
			}
			continue
		}
		// A section that is not its record's text holds what no record knows.
		if c.from.Backends[was.Name].TextDigest != was.TextDigest || c.to.Backends[now.Name].TextDigest != now.TextDigest {
			return false
		}
	}
	return true
}

// files finds what has to be done about files other than the configuration.
func (c *composition) files() bool {
	was, now := byPath(c.from.Files), byPath(c.to.Files)
	if len(was) != len(c.from.Files) || len(now) != len(c.to.Files) {
		return false
	}
	if !tiled(c.from, was[ConfigPath]) || !tiled(c.to, now[ConfigPath]) {
		return false
	}
	if !c.newCertificates(was, now) {
		return false
	}
	for _, path := range slices.Sorted(maps.Keys(now)) {
		if _, stays := was[path]; !stays && now[path].Kind == FileCert {
			continue
		}
		if path != ConfigPath && !c.file(was[path], now[path]) {
			return false
		}
	}
	return c.oldCertificates(was, now)
}

// file covers one file; was is zero for a new one.
func (c *composition) file(was, now File) bool {
	switch {
	case was == now:
		// A record that changed while its file stayed is not that of the file.
		return now.Kind != FileCRTList || reflect.DeepEqual(c.from.CRTLists[now.Path], c.to.CRTLists[now.Path])
	case !loaded(now):
		return was == File{} || !loaded(was)
	case was.Kind != now.Kind || was.ReloadOnChange || now.ReloadOnChange:
		return false
	case now.Kind == FileMap:
		return c.mapFile(now.Path)
	case now.Kind == FileCert:
		return c.add(Operation{Kind: OpCertReplace, Path: now.Path})
	case now.Kind == FileCA:
		return c.add(Operation{Kind: OpCAReplace, Path: now.Path})
	case now.Kind == FileCRTList:
		return c.crtList(now.Path)
	}
	return false
}

// loaded reports that a worker holds what the file held when it was loaded.
func loaded(file File) bool { return file.Kind != FileGeneral || file.ReloadOnChange }

func byPath(files []File) map[string]File {
	found := make(map[string]File, len(files))
	for _, f := range files {
		found[f.Path] = f
	}
	return found
}

// tiled reports that the sections are all of the configuration.
func tiled(p *Plan, config File) bool {
	var length int64
	for _, s := range p.Sections {
		length += s.Length
	}
	return config.Kind == FileConfig && length == config.Size
}
