package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// setIDPrefix marks the set IDs of ADR-0031. Older ones start with sha256: and
// belong to no checkpoint that recovery accepts.
const setIDPrefix = "content-sha256:"

// setDocument is the JSON half of the set ID's input. Member names and order
// are part of the hash, and so is null for a list that never had a file.
type setDocument struct {
	MapFiles        []setFile
	SSLCertificates []setFile
	SSLCaFiles      []setFile
	GeneralFiles    []setGeneralFile
	CRTListFiles    []setFile
}

type setFile struct {
	Path string
}

// setGeneralFile has no reload flag (null) when it is a CA bundle.
type setGeneralFile struct {
	Filename     string
	Path         string
	IsCaFile     bool
	ReloadOnPush *bool
}

// SetID is the set ID of the artifacts, whose file checksums are parallel to
// the descriptors: SHA-256 over a JSON list of the files followed by their
// checksums. The form is the candidate for what ADR-0031 marks with its prefix;
// a stored set ID that differs is no proof of damage.
func SetID(descriptors []Descriptor, checksums []string) string {
	order := make([]int, len(descriptors))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return compareStreamed(descriptors[a], descriptors[b])
	})
	var document setDocument
	grouped := make(map[Family][]string, len(families))
	for _, i := range order {
		group := document.add(descriptors[i])
		grouped[group] = append(grouped[group], checksums[i])
	}

	raw, err := json.Marshal(document)
	if err != nil {
		panic(fmt.Sprintf("a document of strings and flags did not encode: %v", err))
	}
	h := sha256.New()
	// A hash in memory never fails to take bytes.
	_, _ = h.Write(raw)
	for _, group := range []Family{Map, Certificate, CA, General, CRTList} {
		for _, checksum := range grouped[group] {
			_, _ = h.Write([]byte(checksum))
		}
	}
	return setIDPrefix + hex.EncodeToString(h.Sum(nil))
}

// add lists one file and tells its group; both families of general files share
// one list.
func (s *setDocument) add(d Descriptor) Family {
	switch d.Family {
	case Map:
		s.MapFiles = append(s.MapFiles, setFile{Path: d.Path})
	case Certificate:
		s.SSLCertificates = append(s.SSLCertificates, setFile{Path: d.Path})
	case CA:
		s.SSLCaFiles = append(s.SSLCaFiles, setFile{Path: d.Path})
	case CRTList:
		s.CRTListFiles = append(s.CRTListFiles, setFile{Path: d.Path})
	case General:
		reload := d.ReloadOnChange
		s.GeneralFiles = append(s.GeneralFiles, setGeneralFile{Filename: d.Name, Path: d.Path, ReloadOnPush: &reload})
	case GeneralCA:
		s.GeneralFiles = append(s.GeneralFiles, setGeneralFile{Filename: d.Name, Path: d.Path, IsCaFile: true})
		return General
	}
	return d.Family
}
