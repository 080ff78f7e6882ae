package checkpoint

import "github.com/holdfast-project/holdfast/pkg/plan"

// Family is what kind of auxiliary file an artifact is. The number is part of
// the wire format; later releases may know more of them.
type Family uint8

// The families that this package knows.
const (
	Map Family = iota + 1
	General
	Certificate
	CA
	CRTList
	GeneralCA
)

// Kinds of the objects that store artifacts and checkpoints.
const (
	KindTemplate    = "HAProxyTemplateConfig"
	KindCfg         = "HAProxyCfg"
	KindMapFile     = "HAProxyMapFile"
	KindGeneralFile = "HAProxyGeneralFile"
	KindCRTListFile = "HAProxyCRTListFile"
	KindSecret      = "Secret"
)

// GroupVersion is the apiVersion of every stored kind but Secrets.
const GroupVersion = "haproxy-haptic.org/v1alpha1"

// traits is what differs from family to family.
type traits struct {
	name, kind, fileKind string
	ca, general          bool
}

var families = [...]traits{
	Map:         {name: "Map", kind: KindMapFile, fileKind: plan.FileMap},
	General:     {name: "General", kind: KindGeneralFile, fileKind: plan.FileGeneral, general: true},
	Certificate: {name: "Certificate", kind: KindSecret, fileKind: plan.FileCert},
	CA:          {name: "CA", kind: KindSecret, fileKind: plan.FileCA, ca: true},
	CRTList:     {name: "CRTList", kind: KindCRTListFile, fileKind: plan.FileCRTList},
	GeneralCA:   {name: "GeneralCA", kind: KindGeneralFile, fileKind: plan.FileCA, ca: true, general: true},
}

// Valid tells whether this package knows the family.
func (f Family) Valid() bool { return f >= Map && f <= GeneralCA }

func (f Family) traits() traits {
	if !f.Valid() {
		return traits{name: "unknown"}
	}
	return families[f]
}

// String is the family's name as views show it, or "unknown".
func (f Family) String() string { return f.traits().name }

// Kind is the kind of the object that stores the family, or nothing.
func (f Family) Kind() string { return f.traits().kind }

// FileKind is the kind of the family's files in a plan, or nothing.
func (f Family) FileKind() string { return f.traits().fileKind }

// IsCA tells whether the family holds certificate authorities, which is part of
// a child's content suffix.
func (f Family) IsCA() bool { return f.traits().ca }

// IsSecret tells whether the family is stored in Secrets.
func (f Family) IsSecret() bool { return f.Kind() == KindSecret }

// NamedByFile tells whether the family's identity in the content checksum is
// the file name; otherwise it is the path.
func (f Family) NamedByFile() bool { return f.traits().general }

// Descriptor is what an output declares about one artifact. Its JSON members
// are the Go field names in this order: part of the wire format.
type Descriptor struct {
	Family         Family
	Name           string
	Path           string
	RuntimePath    string
	ReloadOnChange bool
}

// identity is the text that enters the content checksum before the content.
func (d Descriptor) identity() string {
	if d.Family.NamedByFile() {
		return d.Name
	}
	return d.Path
}

// Artifact is one auxiliary file of an output.
type Artifact struct {
	Descriptor
	Content []byte
}
