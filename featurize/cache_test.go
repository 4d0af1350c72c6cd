package featurize

const fullDiskEnv = "FEATURIZE_TEST_FULL_DISK"

func streamOnFullDisk(dir string) {}
