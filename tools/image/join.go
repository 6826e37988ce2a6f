package main

import (
	"fmt"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

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
