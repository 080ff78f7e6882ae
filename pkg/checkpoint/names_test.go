package checkpoint

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The digests in this file were computed with another implementation of SHA-256.

func TestNames(t *testing.T) {
	const binding = "13fcf59720b2b5a1d167502eb976e1c1470472eef58039cdc8d816cc1f307d2b"
	const checksum, payload = "0123456789abcdef", "KLUv/QBYAQAA"
	long := strings.Repeat("a", 200)
	tests := []struct {
		name, got, want string
	}{
		{name: "an ordinary output", got: OrdinaryName("web"), want: "web-haproxycfg"},
		{name: "a template with dots", got: OrdinaryName("web.v2"), want: "web.v2-haproxycfg"},
		{name: "a retained-state Lease", got: RetainedStateLeaseName("web"), want: "web-retained-state"},
		{name: "a checkpoint", got: CheckpointName("web", checksum, payload), want: "web-haproxycfg-retained-" + binding},
		{
			name: "the longest template whose checkpoint name is stable",
			got:  CheckpointName(long[:168], checksum, payload), want: long[:168] + "-haproxycfg-retained-" + binding,
		},
		{
			name: "a longer template is cut and disambiguated",
			got:  CheckpointName(long, checksum, payload), want: long[:253-13-85] + "-c2a908d98f5d-haproxycfg-retained-" + binding,
		},
		{
			name: "a name that is no legal one is cleaned and disambiguated",
			got:  OrdinaryName("Bad_Name..x"), want: "bad-name-x-48860fb26735-haproxycfg",
		},
		{
			name: "lower-casing is that of Unicode",
			got:  OrdinaryName("\u212a\u212a\u212a"), want: "kkk-d3a010cea9ad-haproxycfg",
		},
		{name: "a name without letters", got: OrdinaryName("___"), want: "haptic-bda251550bf0-haproxycfg"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("name (-want +got):\n%s", diff)
			}
			if len(tc.got) > 253 {
				t.Errorf("the name has %d characters", len(tc.got))
			}
		})
	}
}

func TestCleanStem(t *testing.T) {
	tests := []struct {
		name, base, want string
		room             int
	}{
		{name: "runs of anything else become one hyphen", base: "a--b..__c", room: 20, want: "a-b-c"},
		{name: "no hyphen at the start or the end", base: "--a--", room: 20, want: "a"},
		{name: "the room ends the scan", base: "abcdef", room: 3, want: "abc"},
		{name: "a hyphen that fills the room is stripped", base: "ab-cd", room: 3, want: "ab"},
		{name: "a hyphen beyond the room does not count", base: "abc-d", room: 3, want: "abc"},
		{name: "letters beyond ASCII are anything else", base: "a\u00e4b", room: 20, want: "a-b"},
		{name: "nothing is left", base: "\u00e4", room: 20, want: ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, cleanStem(tc.base, tc.room)); diff != "" {
				t.Errorf("cleanStem(%q, %d) (-want +got):\n%s", tc.base, tc.room, diff)
			}
		})
	}
}

func TestASuffixThatLeavesNoRoomHashesTheWholeName(t *testing.T) {
	got := disambiguatedName("base", "-"+strings.Repeat("s", 240), "id")
	if diff := cmp.Diff("haptic-"+refHex("id"), got); diff != "" {
		t.Errorf("disambiguatedName (-want +got):\n%s", diff)
	}
	got = disambiguatedName("___", "-"+strings.Repeat("s", 236), "id")
	if diff := cmp.Diff("hap-"+refHex("id")[:12]+"-"+strings.Repeat("s", 236), got); diff != "" {
		t.Errorf("disambiguatedName with three characters of room (-want +got):\n%s", diff)
	}
}

func TestLabelValue(t *testing.T) {
	const long = "web-haproxycfg-retained-13fcf59720b2b5a1d167502eb976e1c1470472eef58039cdc8d816cc1f307d2b"
	tests := []struct{ name, value, want string }{
		{name: "a short name is itself", value: "web-haproxycfg", want: "web-haproxycfg"},
		{name: "63 characters are still legal", value: strings.Repeat("a", 63), want: strings.Repeat("a", 63)},
		{name: "a checkpoint name never is", value: long, want: "haptic-f97ca1e9d0a970e7"},
		{name: "letters of any case, dots and underscores are legal inside", value: "A_b.C-9", want: "A_b.C-9"},
		{name: "nothing is legal", value: "", want: ""},
		{name: "a hyphen at the end is not legal", value: "a-", want: "haptic-" + refHex("a-")[:16]},
		{name: "a slash is not legal", value: "a/b", want: "haptic-" + refHex("a/b")[:16]},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, LabelValue(tc.value)); diff != "" {
				t.Errorf("LabelValue(%q) (-want +got):\n%s", tc.value, diff)
			}
		})
	}
}

const abcChecksum = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

func TestContentSuffix(t *testing.T) {
	tests := []struct {
		kind, path, want string
		ca               bool
	}{
		{kind: "HAProxyMapFile", path: "/etc/haproxy/maps/host.map", want: "46a6dba2836d61f6e5cce146abee8f95b2ddb112f22e3c0c524d2bf61ecc0823"},
		{kind: "HAProxyGeneralFile", path: "/etc/haproxy/general/503.http", want: "f7524eec76c84e318633c33aadea2a7390388af7a33ea8f3bba2bd3756ebb46e"},
		{kind: "HAProxyGeneralFile", path: "/etc/haproxy/general/503.http", ca: true, want: "a148c74f971e02c6676da2f7490ef5be0d5357b3b90e243ce13cf0b1142e2726"},
		{kind: "Secret", path: "/etc/haproxy/ssl/a_b.pem", want: "875eb1b583435a5cd958401eca5c19ea5691ea90312d0842ab3af697683fd873"},
		{kind: "Secret", path: "/etc/haproxy/ssl/a_b.pem", ca: true, want: "2ee60650d771ac519e2e88a7df2144edc093b62a346fadcffcf10ad03c8a322d"},
		{kind: "HAProxyCRTListFile", path: "/etc/haproxy/ssl/li_st.txt", want: "4c7b89d943b10ce47397ab2302a5fd49d5e007f382e3c0ca89ccf9654172bfde"},
	}
	for _, tc := range tests {
		t.Run(tc.kind+" "+tc.path, func(t *testing.T) {
			if diff := cmp.Diff("-content-"+tc.want, ContentSuffix(tc.kind, tc.path, abcChecksum, tc.ca)); diff != "" {
				t.Errorf("ContentSuffix (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChildNames(t *testing.T) {
	const shared, ordinary = "-4c5d98e8c494", "-d277e3f06fd4"
	tests := []struct {
		name, stem string
		d          Descriptor
	}{
		{name: "a map", stem: "haproxy-map-host", d: Descriptor{Family: Map, Name: "/etc/haproxy/maps/host.map", Path: "/etc/haproxy/maps/host.map"}},
		{name: "only the last extension of a map is dropped", stem: "haproxy-map-host-example", d: Descriptor{Family: Map, Path: "/m/host.example.map"}},
		{name: "a certificate", stem: "haproxy-cert-a-b", d: Descriptor{Family: Certificate, Name: "a_b.pem", Path: "/etc/haproxy/ssl/a_b.pem"}},
		{name: "a CA bundle", stem: "haproxy-ca-a-b", d: Descriptor{Family: CA, Name: "a_b.pem", Path: "/etc/haproxy/ssl/a_b.pem"}},
		{name: "a general file goes by its file name", stem: "haproxy-file-a-b-c", d: Descriptor{Family: General, Name: "dir/a_b.c.http", Path: "/g/other.http"}},
		{name: "a general CA bundle too", stem: "haproxy-file-bundle", d: Descriptor{Family: GeneralCA, Name: "bundle.pem", Path: "/g/bundle.pem"}},
		{name: "a crt-list", stem: "haproxy-crtlist-li-st", d: Descriptor{Family: CRTList, Name: "li_st.txt", Path: "/etc/haproxy/ssl/li_st.txt"}},
		{name: "a file that is all extension", stem: "haproxy-map", d: Descriptor{Family: Map, Path: "/m/.map"}},
		{name: "letters that names cannot have", stem: "haproxy-cert-x-y", d: Descriptor{Family: Certificate, Path: "/s/X \u00e4 Y.pem"}},
		{
			name: "a file name of 300 characters", stem: "haproxy-file-" + strings.Repeat("n", 253-86-len("haproxy-file-")),
			d: Descriptor{Family: General, Name: strings.Repeat("n", 300), Path: "/g/n"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			suffix := tc.d.ContentSuffix(abcChecksum)
			got := []string{
				SharedChildName(tc.d, abcChecksum, "web", "template-uid"),
				OrdinaryChildName(tc.d, abcChecksum, "web-haproxycfg", "cfg-uid"),
			}
			if diff := cmp.Diff([]string{tc.stem + shared + suffix, tc.stem + ordinary + suffix}, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			for _, name := range got {
				if !isDNS1123Subdomain(name) {
					t.Errorf("%s is no legal name", name)
				}
			}
		})
	}
	d := Descriptor{Family: Map, Path: "/m/a.map"}
	if SharedChildName(d, abcChecksum, "web", "one") == SharedChildName(d, abcChecksum, "web", "two") {
		t.Error("a template created anew has the same children")
	}
}
