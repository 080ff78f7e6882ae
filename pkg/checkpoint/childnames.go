package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strconv"
	"strings"
)

const contentInfix = "-content-"

// ContentSuffix is the part of a child's name that binds it to its content: a
// digest of kind, full path, file checksum and CA role.
func ContentSuffix(kind, path, fileChecksum string, ca bool) string {
	fields := []string{kind, path, fileChecksum, strconv.FormatBool(ca)}
	sum := sha256.Sum256([]byte(strings.Join(fields, "\x00")))
	return contentInfix + hex.EncodeToString(sum[:])
}

// ContentSuffix is the content suffix of the artifact with this checksum.
func (d Descriptor) ContentSuffix(fileChecksum string) string {
	return ContentSuffix(d.Family.Kind(), d.Path, fileChecksum, d.Family.IsCA())
}

// OrdinaryChildName is the name of a child of an ordinary output: stem, 48 bits
// that scope it to its owner's name and UID, content suffix. An owner that is
// created anew has new children.
func OrdinaryChildName(d Descriptor, fileChecksum string, ownerName, ownerUID string) string {
	return disambiguatedName(stem(d), d.ContentSuffix(fileChecksum), ownerName+"\x00"+ownerUID)
}

// SharedChildName is the name of a child that checkpoints share: stem, 48 bits
// that scope it to the template's name and UID, content suffix. The UID keeps
// it apart from ordinary children, which are scoped to a HAProxyCfg's UID.
func SharedChildName(d Descriptor, fileChecksum string, templateName, templateUID string) string {
	return disambiguatedName(stem(d), d.ContentSuffix(fileChecksum), templateName+"\x00"+templateUID)
}

// stem is the readable start of a child's name.
func stem(d Descriptor) string {
	switch d.Family {
	case Map:
		return "haproxy-map-" + baseWithoutExtension(d.Path)
	case Certificate:
		return "haproxy-cert-" + strings.ReplaceAll(baseWithoutExtension(d.Path), "_", "-")
	case CA:
		return "haproxy-ca-" + strings.ReplaceAll(baseWithoutExtension(d.Path), "_", "-")
	case CRTList:
		return "haproxy-crtlist-" + strings.ReplaceAll(baseWithoutExtension(d.Path), "_", "-")
	default:
		return "haproxy-file-" + strings.NewReplacer("_", "-", ".", "-").Replace(baseWithoutExtension(d.Name))
	}
}

func baseWithoutExtension(file string) string {
	base := path.Base(file)
	return strings.TrimSuffix(base, path.Ext(base))
}
