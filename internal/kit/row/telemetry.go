package row

// Telemetry is what was sampled on the machine around the run.
type Telemetry struct {
	Window       Window     `json:"window"`
	Board        Board      `json:"board"`
	RAPLPackage0 RAPL       `json:"rapl_package0"`
	Wall         Wall       `json:"wall"`
	DataReads    ReadsPerS  `json:"data_reads_per_s"`
	DataReadMB   ReadMBPerS `json:"data_read_mb_per_s"`
	Temps        Temps      `json:"temps"`
	VRAM         VRAM       `json:"vram"`
	Pinned       Pinned     `json:"pinned"`
	Load         Load       `json:"load"`
	Memory       Memory     `json:"memory"`
	PowerLimit   PowerLimit `json:"power_limit"`
}

// Window is the time that the samples belong to.
type Window struct {
	T0          *float64 `json:"t0"` // Unix seconds
	T1          *float64 `json:"t1"`
	Seconds     *float64 `json:"seconds"` // by the monotonic clock
	HostSamples *int     `json:"host_samples"`
	GPUSamples  *int     `json:"gpu_samples"`
}

// Board is the energy of the GPU boards in the window.
type Board struct {
	Joules *float64 `json:"joules"`
	MeanW  *float64 `json:"mean_w"`
	MaxW   *float64 `json:"max_w"`
	Rule   *string  `json:"rule"`

	JPerPromptToken    *float64 `json:"j_per_prompt_token"`
	JPerOutputToken    *float64 `json:"j_per_output_token"`
	JPerPromptTokenNet *float64 `json:"j_per_prompt_token_net"` // less what the machine draws with the model loaded and nothing to do
	JPerOutputTokenNet *float64 `json:"j_per_output_token_net"`
}

// RAPL is the energy of a processor package, which is not wall energy.
type RAPL struct {
	Joules *float64 `json:"joules"`
	Label  *string  `json:"label"`
	Why    *string  `json:"why"` // why Joules is null

	JPerPromptToken    *float64 `json:"j_per_prompt_token"`
	JPerOutputToken    *float64 `json:"j_per_output_token"`
	JPerPromptTokenNet *float64 `json:"j_per_prompt_token_net"` // less what the machine draws with the model loaded and nothing to do
	JPerOutputTokenNet *float64 `json:"j_per_output_token_net"`
}

// Wall is the energy of the whole machine, by a meter of the user's.
type Wall struct {
	Joules *float64 `json:"joules"`
	MeanW  *float64 `json:"mean_w"`
	MaxW   *float64 `json:"max_w"`
	Rule   *string  `json:"rule"`

	JPerPromptToken    *float64 `json:"j_per_prompt_token"`
	JPerOutputToken    *float64 `json:"j_per_output_token"`
	JPerPromptTokenNet *float64 `json:"j_per_prompt_token_net"` // less what the machine draws with the model loaded and nothing to do
	JPerOutputTokenNet *float64 `json:"j_per_output_token_net"`
}

// ReadsPerS counts reads of the disk that holds the model.
type ReadsPerS struct {
	Mean *float64 `json:"mean"`
	Max  *float64 `json:"max"`
}

// ReadMBPerS is the volume of those reads (MB = 1e6 bytes).
type ReadMBPerS struct {
	Mean *float64 `json:"mean"`
}

// Temps are the highest temperatures in the window, in degrees Celsius.
type Temps struct {
	GPUMaxC *float64 `json:"gpu_max_c"`
	SSDMaxC *float64 `json:"ssd_max_c"`
}

// VRAM is GPU memory, in MiB, against a baseline read before the start.
type VRAM struct {
	MaxUsedMiB  *float64 `json:"max_used_mib"`
	BaselineMiB *float64 `json:"baseline_mib"`
	GrowthMiB   *float64 `json:"growth_mib"`
	Rule        *string  `json:"rule"`
}

// Pinned is locked, pinned and resident memory of the target's processes.
type Pinned struct {
	VmLckMaxBytes *int64  `json:"vmlck_max_bytes"`
	VmPinMaxBytes *int64  `json:"vmpin_max_bytes"`
	VmRSSMaxBytes *int64  `json:"vmrss_max_bytes"`
	Rule          *string `json:"rule"`
}

// Load is what else ran on the machine.
type Load struct {
	Load1Mean     *float64 `json:"load1_mean"`
	NoiseProcsMax *int     `json:"noise_procs_max"`
}

// Memory is pressure on the machine's memory.
type Memory struct {
	MemAvailableGiBMin  *float64 `json:"mem_available_gib_min"`
	UserPSIFullAvg10Max *float64 `json:"user_psi_full_avg10_max"`
	PSIFullAvg10Max     *float64 `json:"psi_full_avg10_max"`
	UnitPSIFullAvg10Max *float64 `json:"unit_psi_full_avg10_max"`
	PSIRule             *string  `json:"psi_rule"`
	UnitMaxEventsDelta  *int64   `json:"unit_max_events_delta"`
}

// PowerLimit is the enforced limit of the GPU, which may float.
type PowerLimit struct {
	MinW *float64 `json:"min_w"`
	MaxW *float64 `json:"max_w"`
	Rule *string  `json:"rule"`
}

// energies adds the figures of energy to values, under their paths.
func (t *Telemetry) energies(values map[string]**float64) {
	b, p, w := &t.Board, &t.RAPLPackage0, &t.Wall
	for path, to := range map[string]**float64{
		"board.joules": &b.Joules, "board.mean_w": &b.MeanW,
		"board.j_per_prompt_token": &b.JPerPromptToken, "board.j_per_output_token": &b.JPerOutputToken,
		"board.j_per_prompt_token_net": &b.JPerPromptTokenNet, "board.j_per_output_token_net": &b.JPerOutputTokenNet,
		"rapl_package0.joules":             &p.Joules,
		"rapl_package0.j_per_prompt_token": &p.JPerPromptToken, "rapl_package0.j_per_output_token": &p.JPerOutputToken,
		"rapl_package0.j_per_prompt_token_net": &p.JPerPromptTokenNet, "rapl_package0.j_per_output_token_net": &p.JPerOutputTokenNet,
		"wall.joules": &w.Joules, "wall.mean_w": &w.MeanW,
		"wall.j_per_prompt_token": &w.JPerPromptToken, "wall.j_per_output_token": &w.JPerOutputToken,
		"wall.j_per_prompt_token_net": &w.JPerPromptTokenNet, "wall.j_per_output_token_net": &w.JPerOutputTokenNet,
	} {
		values["telemetry."+path] = to
	}
}
