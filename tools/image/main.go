// Image writes an OCI image of connect-svc as a layout folder, without a container engine, the same bytes for the same files.
//
//	go run -C tools ./image --program FILE --programs FOLDER --bill FILE --version v1.0.0 --commit HASH --arch amd64 FOLDER
//	go run -C tools ./image join FOLDER connect-svc:v1.0.0=image-amd64,image-arm64
//
// The image is the static program and its archive, the certificate authorities that Mozilla trusts, and their bill of materials. It
// runs as user 65532, who owns /keys. With --sandbox it also has the PostgreSQL of a Debian, this machine or the one in the folder
// --root, with the libraries that it needs, no archive, and runs `connect-svc sandbox`. The bill of materials is also written to FOLDER.cdx.json.
// SOURCE_DATE_EPOCH, in seconds, is the time of all files; without it they are from 1970.
//
// With join it puts images of several platforms into one layout, under one name each.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// account is the number of the user that the program runs as, which no person has.
const account = 65532

type source struct {
	Program  string `required:"" help:"The built program."`
	Programs string `required:"" help:"The folder with its archive, which the service hands out; not in the image of the sandbox."`
	Bill     string `required:"" help:"Its bill of materials."`
	Version  string `required:"" help:"Its version."`
	Commit   string `help:"The commit that it was built from."`
	Arch     string `required:"" help:"Its architecture, as Go names it."`
	Sandbox  bool   `help:"Make the image of the sandbox, with PostgreSQL inside."`
	Root     string `help:"The Debian whose PostgreSQL it is, without a slash at the end; this machine by default."`
	Epoch    int64  `env:"SOURCE_DATE_EPOCH" help:"The time of all files, in seconds."`
	Folder   string `arg:"" help:"The layout folder."`
}

func main() {
	var commands struct {
		Write source `cmd:"" default:"withargs" help:"Write an image."`
		Join  joined `cmd:"" help:"Put images into one layout."`
	}
	command := kong.Parse(&commands, kong.Name("image"))
	command.FatalIfErrorf(command.Run())
}

// Run writes the image.
func (s source) Run() error {
	at := time.Unix(s.Epoch, 0).UTC()
	var layers []tree
	command := []string{"serve"}
	title, description := "connect-svc", "Lets partner companies read users' activity, with consent."
	var database tree
	if s.Sandbox {
		var err error
		if database, err = postgres(s.Root, s.Arch); err != nil {
			return fmt.Errorf("PostgreSQL: %w", err)
		}
		layers = append(layers, database)
		command = []string{"sandbox", "--listen", "0.0.0.0:8443", "--private-listen", "0.0.0.0:9090"}
		title, description = "connect-svc sandbox", "A throwaway connect-svc for partners' automated tests."
	}
	service, err := s.service(database)
	if err != nil {
		return err
	}
	layers = append(layers, service) // it changes with each version, and so comes last
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, files := range layers {
		layer, err := files.layer(at)
		if err != nil {
			return err
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: at}, CreatedBy: "make image"}}); err != nil {
			return err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", s.Arch, v1.Time{Time: at}
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", account, account),
		Entrypoint:   []string{"/connect-svc"},
		Cmd:          command,
		ExposedPorts: map[string]struct{}{"8443/tcp": {}, "9090/tcp": {}},
		StopSignal:   "SIGTERM",
		WorkingDir:   "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":       title,
			"org.opencontainers.image.description": description,
			"org.opencontainers.image.version":     s.Version,
			"org.opencontainers.image.revision":    s.Commit,
			"org.opencontainers.image.created":     at.Format(time.RFC3339),
		},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	if err := os.RemoveAll(s.Folder); err != nil {
		return err
	}
	path, err := layout.Write(s.Folder, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendImage(image,
		layout.WithPlatform(v1.Platform{OS: "linux", Architecture: s.Arch}),
		// A tag, which cannot have the plus sign of a version after a release.
		layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": strings.ReplaceAll(s.Version, "+", "_")}))
}

type joined struct {
	Folder string   `arg:"" help:"The layout folder."`
	Images []string `arg:"" help:"NAME=LAYOUT,LAYOUT, with one image in each layout."`
}

// Run writes the layout. Each name is an index of images, from which a registry's client takes its platform's.
func (j joined) Run() error {
	if err := os.RemoveAll(j.Folder); err != nil {
		return err
	}
	path, err := layout.Write(j.Folder, empty.Index)
	if err != nil {
		return err
	}
	for _, argument := range j.Images {
		name, layouts, _ := strings.Cut(argument, "=")
		index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
		for from := range strings.SplitSeq(layouts, ",") {
			image, platform, err := onlyImage(from)
			if err != nil {
				return fmt.Errorf("%s: %w", from, err)
			}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
		}
		if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": name})); err != nil {
			return err
		}
	}
	return nil
}

// onlyImage is the one image of a layout.
func onlyImage(folder string) (v1.Image, *v1.Platform, error) {
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, nil, fmt.Errorf("has %d images", len(manifest.Manifests))
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	return image, manifest.Manifests[0].Platform, err
}
