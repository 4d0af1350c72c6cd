package install

// An archive is a file that contains the library, with its SHA-256.
type archive struct {
	name   string
	size   int64
	sha256 string
	entry  string // of the library in it
}

// pins are the official builds of PinnedVersion for one platform.
type pins struct {
	github, wheel archive
	wheelPlatform string // pip's --platform
}

// pinsFor returns the builds for a platform. The hashes of the wheels were computed from downloads; those of the
// GitHub archives are the digests of the assets of release v1.30.0.
func pinsFor(goos, goarch string) (pins, bool) {
	const v = PinnedVersion
	const so, dylib, dll = "libonnxruntime.so." + v, "libonnxruntime." + v + ".dylib", "onnxruntime.dll"
	github := func(platform, format, library string, size int64, sha256 string) archive {
		dir := "onnxruntime-" + platform + "-" + v
		return archive{dir + format, size, sha256, dir + "/lib/" + library}
	}
	wheel := func(platform, library string, size int64, sha256 string) archive {
		return archive{"onnxruntime-" + v + "-cp312-cp312-" + platform + ".whl", size, sha256,
			"onnxruntime/capi/" + library}
	}
	var p pins
	switch goos + "/" + goarch {
	case "linux/amd64":
		p.github = github("linux-x64", ".tgz", so, 11306877,
			"a5ed5a3cac51fbb2e90da632ae43d19212faaa20e76484e62bcb7c23ddb3b3fd")
		p.wheelPlatform = "manylinux_2_28_x86_64"
		p.wheel = wheel(p.wheelPlatform, so, 23585654,
			"fa688e7891a6aa206636fe7372e27ee75fd17713289f6b4fc7b190e0a7de9328")
	case "linux/arm64":
		p.github = github("linux-aarch64", ".tgz", so, 10269495,
			"e16a27a8ed330bbc698df7330b0cf56e722f354e3bcc92118682c74ef3c3e3da")
		p.wheelPlatform = "manylinux_2_28_aarch64"
		p.wheel = wheel(p.wheelPlatform, so, 21345202,
			"6c32a000d5139a38ba9349030b0032e3331acb559d596b22738d9d2b343a2b83")
	case "darwin/arm64":
		p.github = github("osx-arm64", ".tgz", dylib, 42373116,
			"6ebb5062a934537c352937821f9fe9718e7de1a2db1122a93dd363ffd53a7012")
		p.wheelPlatform = "macosx_14_0_arm64"
		p.wheel = wheel(p.wheelPlatform, dylib, 21544867,
			"001ed726c9bd5e2bc92faade7d37d889e9606a350b7d5529f0227df2e3bb57fd")
	case "windows/amd64":
		p.github = github("win-x64", ".zip", dll, 82645522,
			"c6ba983baf5681af108599675d2a89c2d145512d02de28aed0bff177cd0ba949")
		p.wheelPlatform = "win_amd64"
		p.wheel = wheel(p.wheelPlatform, dll, 14311470,
			"f3501472571f1b1eee50e017851e7929f5ea37312d2d8c2494a19e8fc58b4a38")
	case "windows/arm64":
		p.github = github("win-arm64", ".zip", dll, 83954906,
			"e53db8a50b23ae35be901cc93428baf997dc8d420333b097b2eae53d3ea9f2d3")
		p.wheelPlatform = "win_arm64"
		p.wheel = wheel(p.wheelPlatform, dll, 14175072,
			"dc4c706f1935ebb62356e6a095b047859badd854482c40560888e95c328ed262")
	default:
		return pins{}, false
	}
	return p, true
}
