package checkpoint

import (
	"strings"
	"testing"
)

func childFaults() []fault {
	return append(childByteFaults(), append(childNameFaults(), childOwnerFaults()...)...)
}

// onChild changes the stored child of one file.
func onChild(runtime string, change func(c *StoredChild)) func(*testing.T, *fixture) {
	return func(t *testing.T, f *fixture) { change(f.child(t, runtime)) }
}

// onNamedChild changes a child and lets references follow its name.
func onNamedChild(runtime string, change func(c *StoredChild)) func(*testing.T, *fixture) {
	return func(t *testing.T, f *fixture) {
		ref := f.reference(t, runtime)
		c := f.child(t, runtime)
		change(c)
		ref.Name = c.Name
	}
}

func childByteFaults() []fault {
	return []fault{
		{
			name:   "a byte of a certificate changed",
			change: onChild(certificateRow, func(c *StoredChild) { c.Text = strings.Replace(c.Text, "key", "kez", 1) }),
			state:  Damaged, row: certificateRow, reasons: []Reason{ReasonChecksumMismatch, ReasonPlanDigestMismatch},
		},
		{
			name:   "a certificate is empty",
			change: onChild(certificateRow, func(c *StoredChild) { c.Text = "" }),
			state:  Damaged, row: certificateRow, reasons: []Reason{ReasonChecksumMismatch, ReasonPlanDigestMismatch},
		},
		{
			name:   "a child's checksum changed",
			change: onChild(generalRow, func(c *StoredChild) { c.Checksum = refChecksum("x") }),
			state:  Damaged, row: generalRow, reasons: []Reason{ReasonChecksumMismatch},
		},
		{
			name:   "a child's checksum lost its prefix",
			change: onChild(generalRow, func(c *StoredChild) { c.Checksum = strings.TrimPrefix(c.Checksum, "sha256:") }),
			state:  Damaged, row: generalRow, reasons: []Reason{ReasonChecksumMismatch},
		},
		{
			name: "bytes and checksum of a child changed together",
			change: onChild(generalRow, func(c *StoredChild) {
				c.Text += "x"
				c.Checksum = refChecksum(c.Text)
			}),
			state: Damaged, row: generalRow, reasons: []Reason{ReasonChildNameMismatch, ReasonPlanDigestMismatch},
		},
		{
			name:   "a compressed child lost its mark",
			change: onChild(mapRow, func(c *StoredChild) { c.Compressed = false }),
			state:  Damaged, row: mapRow, reasons: []Reason{ReasonChecksumMismatch, ReasonPlanDigestMismatch},
		},
		{
			name:   "a plain child is marked compressed",
			change: onChild(generalRow, func(c *StoredChild) { c.Compressed = true }),
			state:  Damaged, row: generalRow, reasons: []Reason{ReasonContentUnreadable},
		},
		{
			name:   "a byte of a compressed child changed",
			change: onChild(mapRow, func(c *StoredChild) { c.Text = c.Text[:len(c.Text)/2] + "AAAA" + c.Text[len(c.Text)/2+4:] }),
			state:  Damaged, row: mapRow, reasons: []Reason{ReasonContentUnreadable},
		},
		{
			name:   "an empty file lost its mark",
			change: onChild("maps/void.map", func(c *StoredChild) { c.Empty = false }),
			state:  Damaged, row: "maps/void.map", reasons: []Reason{ReasonEmptyMismatch},
		},
		{
			name:   "an empty file is marked compressed too",
			change: onChild("maps/void.map", func(c *StoredChild) { c.Compressed = true }),
			state:  Damaged, row: "maps/void.map", reasons: []Reason{ReasonEmptyMismatch, ReasonContentUnreadable},
		},
		{
			name:   "a file with content is marked empty",
			change: onChild(generalRow, func(c *StoredChild) { c.Empty = true }),
			state:  Damaged, row: generalRow, reasons: []Reason{ReasonEmptyMismatch},
		},
		{
			name:   "a child has another path",
			change: onChild(certificateRow, func(c *StoredChild) { c.Path = "/elsewhere.pem" }),
			state:  Damaged, row: certificateRow, reasons: []Reason{ReasonChildNameMismatch, ReasonPathMismatch},
		},
		{
			name:   "a child has the path of another",
			change: onChild("maps/void.map", func(c *StoredChild) { c.Path = "/etc/haproxy/maps/host.map" }),
			state:  Damaged, row: "maps/void.map", reasons: []Reason{ReasonChildNameMismatch, ReasonDuplicateArtifact},
		},
		{
			name:   "a child has no path",
			change: onChild(mapRow, func(c *StoredChild) { c.Path = "" }),
			state:  Damaged, row: mapRow, reasons: []Reason{ReasonPathMissing, ReasonChildNameMismatch},
		},
		{
			name:   "a general file has another file name",
			change: onChild(generalRow, func(c *StoredChild) { c.FileName = "other" }),
			state:  Damaged, row: generalRow, reasons: []Reason{ReasonFileNameMismatch},
		},
		{
			name:   "a general file became a CA bundle",
			change: onChild(generalRow, func(c *StoredChild) { c.Family = GeneralCA }),
			state:  Damaged, row: generalRow, reasons: []Reason{ReasonChildNameMismatch, ReasonFamilyMismatch},
		},
		{
			name:   "a CA bundle became a general file",
			change: onChild("general/bundle.pem", func(c *StoredChild) { c.Family = General }),
			state:  Damaged, row: "general/bundle.pem", reasons: []Reason{ReasonChildNameMismatch, ReasonFamilyMismatch},
		},
		{
			name:   "a certificate Secret became a CA Secret",
			change: onChild(certificateRow, func(c *StoredChild) { c.Family = CA }),
			state:  Damaged, row: certificateRow, reasons: []Reason{ReasonFamilyMismatch, ReasonChildNameMismatch},
		},
		{
			name: "a Secret has a shape it must not have",
			change: onChild(certificateRow, func(c *StoredChild) {
				c.Problems = []Finding{{State: Damaged, Reason: ReasonSecretMalformed, Message: "Secret/x: data has 3 keys"}}
			}),
			state: Damaged, row: certificateRow, reasons: []Reason{ReasonSecretMalformed},
		},
		{
			name:   "a child is being deleted",
			change: onChild(certificateRow, func(c *StoredChild) { c.Terminating = true }),
			state:  Damaged, row: certificateRow, reasons: []Reason{ReasonTerminating},
		},
		{
			name:   "a child is gone",
			change: onChild(certificateRow, func(c *StoredChild) { c.Name = "renamed" }),
			state:  Damaged, row: certificateRow, reasons: []Reason{ReasonChildMissing},
		},
		{
			name:   "a child lives in another namespace",
			change: onChild(certificateRow, func(c *StoredChild) { c.Namespace = "elsewhere" }),
			state:  Damaged, row: certificateRow, reasons: []Reason{ReasonChildMissing},
		},
		{
			name:   "a child of another kind has the referenced name",
			change: onChild(certificateRow, func(c *StoredChild) { c.Kind = "HAProxyMapFile" }),
			state:  Damaged, row: certificateRow, reasons: []Reason{ReasonChildMissing},
		},
	}
}

func childNameFaults() []fault {
	return []fault{
		{
			name:   "a shared child's name has another stem, scope and end",
			change: onNamedChild(certificateRow, func(c *StoredChild) { c.Name = "x" + c.Name[strings.Index(c.Name, "-content-"):] + ".v2" }),
			state:  Verified,
		},
		{
			name:   "a shared child's name holds no digest",
			change: onNamedChild(certificateRow, func(c *StoredChild) { c.Name = "haproxy-cert-a-example" }),
			state:  Unknown, row: certificateRow, reasons: []Reason{ReasonNameFormUnknown},
		},
		{
			name:   "a shared child's name holds a digest that is cut short",
			change: onNamedChild(certificateRow, func(c *StoredChild) { c.Name = c.Name[:len(c.Name)-1] }),
			state:  Unknown, row: certificateRow, reasons: []Reason{ReasonNameFormUnknown},
		},
		{
			name: "a shared child's name holds another content's digest",
			change: onNamedChild(certificateRow, func(c *StoredChild) {
				c.Name = c.Name[:len(c.Name)-64] + refHex("other")
			}),
			state: Damaged, row: certificateRow, reasons: []Reason{ReasonChildNameMismatch},
		},
		{
			name:    "an owned child's name goes on after the checkpoint's suffix",
			options: fixtureOptions{owned: true},
			change:  onNamedChild(certificateRow, func(c *StoredChild) { c.Name += "0" }),
			state:   Damaged, row: certificateRow, reasons: []Reason{ReasonChildNameMismatch},
		},
		{
			name:    "an owned child's name has the suffix of another checkpoint",
			options: fixtureOptions{owned: true},
			change: onNamedChild(certificateRow, func(c *StoredChild) {
				c.Name = c.Name[:len(c.Name)-64] + refHex("other")
			}),
			state: Damaged, row: certificateRow, reasons: []Reason{ReasonChildNameMismatch},
		},
		{
			name:    "an owned child has a shared name",
			options: fixtureOptions{owned: true},
			change: onNamedChild(certificateRow, func(c *StoredChild) {
				c.Name = c.Name[:strings.Index(c.Name, "-retained-")]
			}),
			state: Damaged, row: certificateRow, reasons: []Reason{ReasonChildNameMismatch},
		},
		{
			name: "two children swapped their content",
			change: func(t *testing.T, f *fixture) {
				a, b := f.child(t, mapRow), f.child(t, "maps/void.map")
				a.Text, b.Text = b.Text, a.Text
				a.Checksum, b.Checksum = b.Checksum, a.Checksum
				a.Compressed, b.Compressed = b.Compressed, a.Compressed
				a.Empty, b.Empty = b.Empty, a.Empty
			},
			state: Damaged, row: "maps/host.map maps/void.map",
			reasons: []Reason{ReasonChildNameMismatch, ReasonPlanDigestMismatch, ReasonChildNameMismatch, ReasonPlanDigestMismatch},
		},
	}
}

func childOwnerFaults() []fault {
	owner := func(change func(o *Owner)) func(*testing.T, *fixture) {
		return onChild(certificateRow, func(c *StoredChild) { change(&c.Owners[len(c.Owners)-1]) })
	}
	wrong := func(name string, owned bool, change func(o *Owner)) fault {
		return fault{
			name: name, options: fixtureOptions{owned: owned}, change: owner(change),
			state: Damaged, row: certificateRow, reasons: []Reason{ReasonOwnerMismatch},
		}
	}
	return []fault{
		wrong("a shared child's owner has another kind", false, func(o *Owner) { o.Kind = "HAProxyCfg" }),
		wrong("a shared child's owner has another group", false, func(o *Owner) { o.APIVersion = "v1" }),
		wrong("a shared child's owner has another name", false, func(o *Owner) { o.Name = "other" }),
		wrong("a shared child's owner is another template", false, func(o *Owner) { o.UID = "other" }),
		wrong("a shared child's owner is no controller", false, func(o *Owner) { o.Controller = false }),
		wrong("an owned child's owner has another kind", true, func(o *Owner) { o.Kind = "HAProxyTemplateConfig" }),
		wrong("an owned child's owner has another group", true, func(o *Owner) { o.APIVersion = "example.org/v1" }),
		wrong("an owned child's owner has another name", true, func(o *Owner) { o.Name = "other" }),
		wrong("an owned child's owner is another checkpoint", true, func(o *Owner) { o.UID = "other" }),
		{
			name: "a child without any owner", change: onChild(certificateRow, func(c *StoredChild) { c.Owners = nil }),
			state: Damaged, row: certificateRow, reasons: []Reason{ReasonOwnerMismatch},
		},
		{
			name: "a shared child among owned ones is sound",
			change: onNamedChild(certificateRow, func(c *StoredChild) {
				c.Owners = []Owner{{APIVersion: "haproxy-haptic.org/v1alpha1", Kind: "HAProxyTemplateConfig", Name: "web", UID: "template-uid", Controller: true}}
			}),
			options: fixtureOptions{owned: true}, state: Verified,
		},
	}
}
